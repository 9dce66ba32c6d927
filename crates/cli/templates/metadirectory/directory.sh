#!/bin/sh
# An LDAP server to try the metadirectory with: OpenLDAP's slapd (on Debian: apt install slapd), without privileges, its data in the
# folder `directory` beside this file. It stays in the foreground; Ctrl-C ends it. `sh directory.sh 4389` takes another port.
set -eu

cd "$(dirname "$0")"
PATH=$PATH:/usr/sbin:/usr/libexec
umask 077
port=${1:-3389}
command -v slapd > /dev/null || {
    echo "there is no slapd here: install OpenLDAP's server, or use \`plimsoll metadir init --target ldif\`" >&2
    exit 1
}
if [ -e directory ] && ! [ -O directory ]; then
    echo "$PWD/directory belongs to another user, who could have put any configuration into it: remove it" >&2
    exit 1
fi
if [ ! -d directory ]; then
    for schema in /etc/ldap/schema /etc/openldap/schema; do [ -d "$schema" ] && break; done
    mkdir -p directory/data
    {
        for name in core cosine inetorgperson; do echo "include $schema/$name.schema"; done
        for modules in /usr/lib/ldap /usr/lib64/openldap /usr/lib/openldap; do
            if ls "$modules"/back_mdb* > /dev/null 2>&1; then
                printf 'modulepath %s\nmoduleload back_mdb\n' "$modules"
                break
            fi
        done
        cat << END
database mdb
suffix "dc=example,dc=com"
rootdn "cn=admin,dc=example,dc=com"
rootpw $(cat directory.password)
directory $PWD/directory/data
maxsize 17179869184
index objectClass,uid,employeeNumber,entryUUID eq
END
    } > directory/slapd.conf
    slapd -T add -q -f directory/slapd.conf << END || { rm -rf directory; exit 1; }
dn: dc=example,dc=com
objectClass: domain
dc: example

dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit
ou: people
END
fi
echo "listening on ldap://127.0.0.1:$port"
exec slapd -f directory/slapd.conf -h "ldap://127.0.0.1:$port" -d 0
