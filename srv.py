import http.server,socketserver
class H(http.server.BaseHTTPRequestHandler):
    protocol_version='HTTP/1.1'
    def do_GET(s): s.send_response(200); s.send_header('Content-Length','2'); s.end_headers(); s.wfile.write(b'hi')
    def log_message(s,*a): pass
socketserver.ThreadingTCPServer.allow_reuse_address=True
socketserver.ThreadingTCPServer(('127.0.0.1',18977),H).serve_forever()
