#!/bin/sh
# servers.sh COMMAND...: starts slapd and PostgreSQL in a private folder, with users, groups and applications for the broker;
# then runs a shell command, in which `broker` and `portal` are the programs of this crate, until SIGTERM.
#
# DIRECTORY_PORT, DATABASE_PORT  where the servers listen on 127.0.0.1
# USERS, USER_GROUPS, APPLICATIONS  how many (100, 10, 60)
# In the command, $BROKER has the flags of a broker that uses both servers directly.
set -eu
umask 022
PATH=$PATH:/usr/sbin:/sbin
for folder in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin; do [ ! -d "$folder" ] || PATH=$PATH:$folder; done
here=$(cd -P "$(dirname "$0")" && pwd)
users=${USERS:-100} groups=${USER_GROUPS:-10} applications=${APPLICATIONS:-60}
"${CARGO:-cargo}" build --quiet --locked --manifest-path "$here/Cargo.toml" --bins
PATH=${CARGO_TARGET_DIR:-$here/../../target}/debug:$PATH

folder=$(mktemp -d -p /var/tmp)
as=
[ "$(id -u)" != 0 ] || { as='setpriv --reuid=postgres --regid=postgres --clear-groups'; chown postgres: "$folder"; }
slapd= command=
stop() {
    for process in $command $slapd; do kill "$process" 2> /dev/null || true; done
    $as pg_ctl -D "$folder/data" -m immediate stop > /dev/null || true
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 0' TERM INT
cd /
$as initdb --no-sync -A trust -U broker -E UTF8 --locale=C -D "$folder/data" > /dev/null
$as pg_ctl -D "$folder/data" -l "$folder/data/log" -w start \
    -o "-p $DATABASE_PORT -c listen_addresses=127.0.0.1 -k $folder -c shared_buffers=32MB" > /dev/null
psql -q -h "$folder" -p "$DATABASE_PORT" -U broker postgres << END
CREATE TABLE applications (id int PRIMARY KEY, name text NOT NULL, groups text[] NOT NULL);
INSERT INTO applications SELECT i, 'Application ' || i, ARRAY['cn=group' || i % $groups || ',ou=groups,dc=example,dc=com']
  FROM generate_series(1, $applications) i;
END
mkdir -m 700 "$folder/directory" && cd "$folder/directory" && mkdir db
{
    for schema in core cosine inetorgperson; do echo "include /etc/ldap/schema/$schema.schema"; done
    printf '%s\n' 'modulepath /usr/lib/ldap' 'moduleload back_mdb' 'database mdb' 'suffix "dc=example,dc=com"' \
        'rootdn "cn=admin,dc=example,dc=com"' 'rootpw secret' 'directory ./db' 'maxsize 268435456' \
        'index uid,member eq' dbnosync
} > slapd.conf
awk -v users="$users" -v groups="$groups" 'BEGIN {
    end = "dc=example,dc=com"
    print "dn: " end "\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: Example\n"
    print "dn: ou=people," end "\nobjectClass: organizationalUnit\nou: people\n"
    print "dn: ou=groups," end "\nobjectClass: organizationalUnit\nou: groups\n"
    for (i = 0; i < users; i++)
        print "dn: uid=user" i ",ou=people," end "\nobjectClass: inetOrgPerson\nuid: user" i "\ncn: User " i "\nsn: " i "\nuserPassword: secret" i "\n"
    for (g = 0; g < groups; g++) {
        print "dn: cn=group" g ",ou=groups," end "\nobjectClass: groupOfNames\ncn: group" g
        for (i = g; i < users; i += groups) print "member: uid=user" i ",ou=people," end
        print "member: cn=admin," end "\n"
    }
}' | slapadd -q -f slapd.conf
slapd -f slapd.conf -h "ldap://127.0.0.1:$DIRECTORY_PORT" -d 0 &
slapd=$!
until ldapsearch -x -H "ldap://127.0.0.1:$DIRECTORY_PORT" -b dc=example,dc=com -s base > /dev/null 2>&1; do
    sleep 0.1
done
BROKER="--directory ldap://127.0.0.1:$DIRECTORY_PORT --base dc=example,dc=com --bind-dn cn=admin,dc=example,dc=com --bind-password secret"
BROKER="$BROKER --database postgres://broker@127.0.0.1:$DATABASE_PORT/postgres"
export BROKER
sh -c "$*" &
command=$!
wait "$command"
