#!/bin/bash
# A real OAR cluster on one Debian host, to test Pliant. Not for production: everything is on loopback,
# every node is this host, and its number of cores is made up.
#
#   oar.sh start DIR [--nodes 4] [--cpus 4]     each node has 1,000 MiB (memnode) and 2,000 MiB of local disk (scratch_mb), the first also two GPUs (gpu_count, gpu_model);
#                                               there are two resources of type matlab
#   oar.sh status DIR      usable nodes, the folder of its commands (oarsub, oarstat, ...), and the user for its jobs
#   oar.sh stop DIR        ends what was started from DIR, and nothing else
#
# Needs root and Debian; installs Debian's own packages if they are missing. DIR is new, or of an earlier start.
# Several clusters can run at once. OAR accepts no jobs of root and starts jobs in the user's login shell, so the script
# creates a user for them: pliant-jobs, a system user without password and home, with /bin/sh. The user stays. Outside DIR
# there is also a link in /run, which `stop` removes.
# Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not possible on this machine.
set -euo pipefail
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

FIRST_PORT=12000 LAST_PORT=19000 # below the ports of the system and of slurm.sh
TIMEOUT_S=60
HOME_OF_OAR=/usr/lib/oar
USER_OF_JOBS=pliant-jobs
COMMANDS=(oarsub oarstat oardel oarhold oarresume oarnodes)

usage() { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
fail() { echo "error: $*" >&2; exit 1; }
impossible() { echo "error: $*" >&2; exit 3; }
. "$(dirname "$0")/processes.sh"

# --- Settings -----------------------------------------------------------------------------------------------------

verb=${1:-} dir=${2:-}
[ -n "$verb" ] && [ -n "$dir" ] || usage
shift 2
nodes=4 cpus=4 base=0 conf=''
while [ $# -gt 0 ]; do
    case $1 in
    --nodes) nodes=${2:-} ;;
    --cpus) cpus=${2:-} ;;
    *) usage ;;
    esac
    [[ ${2:-} =~ ^[1-9][0-9]{0,2}$ ]] || usage
    shift 2
done

mkdir -p "$dir" || fail "cannot make $dir"
dir=$(cd "$dir" && pwd -P)
[[ $dir =~ ^[A-Za-z0-9/._-]{1,80}$ ]] || fail "expected a folder of at most 80 letters, digits and / . _ -, found $dir"
cd "$dir"
settings=$dir/settings launcher=()

drawn() { head -c 2000 /dev/urandom | tr -dc a-z0-9 | cut -c "1-$1"; }

# --- Running OAR's programs with a configuration of our own ------------------------------------------------------

# The daemon and the commands of an operator, as OAR's user. They listen on loopback only (Loopback.pm).
be_oar() {
    as_oar=(setpriv --reuid=oar --regid=oar --init-groups env -i "PATH=$PATH:$HOME_OF_OAR/oardodo" HOME=/var/lib/oar USER=oar
        SHELL=/bin/bash OARUSER=oar OARDO_USER=oar "OARDO_UID=$(id -u oar)" OARDIR=$HOME_OF_OAR "OARCONFFILE=$conf"
        "PERL5LIB=$dir/perl" PERL5OPT=-MLoopback)
}

# The commands of users are small set-user-id programs in which the name of the configuration is fixed. Our copies of
# them have another name there, of the same length: a link to our configuration. So /etc/oar is left as it is.
copy_commands() {
    local name
    mkdir -p bin
    for name in "${COMMANDS[@]}"; do
        sed "s#/etc/oar/oar\.conf#$conf#g" "/usr/bin/$name" >"bin/.$name"
        grep -q "$conf" "bin/.$name" || impossible "expected /etc/oar/oar.conf in /usr/bin/$name, found none"
        chown root:oar "bin/.$name"
        chmod 6755 "bin/.$name"
        mv "bin/.$name" "bin/$name"
    done
}

link_configuration() {
    [ -n "$conf" ] || until conf=/run/oar-$(drawn 4).cnf && ln -s "$dir/oar.conf" "$conf" 2>/dev/null; do :; done
    [ -e "$conf" ] || ln -sfn "$dir/oar.conf" "$conf"
}

# --- The files ----------------------------------------------------------------------------------------------------

write_files() {
    local password
    mkdir -p perl runtime
    password=$(drawn 24)
    cat >perl/Loopback.pm <<'PERL'
package Loopback;
use IO::Socket::INET;
my $new = \&IO::Socket::INET::new;
no warnings 'redefine';
*IO::Socket::INET::new = sub {
    my ($class, @options) = @_;
    push @options, LocalAddr => '127.0.0.1' if @options > 1 && { @options }->{Listen};
    return $new->($class, @options);
};
1;
PERL
    # In place of ssh: drops the options and the node's name, and runs the rest here.
    cat >node <<'SHELL'
#!/bin/bash
while [[ ${1:-} == -* ]]; do
    case $1 in -[bcDeFiIJLlmOopQRSWw]) shift 2 ;; *) shift ;; esac
done
shift
# The process that runs a job does not load Loopback.pm.
unset PERL5OPT
exec bash --noprofile --norc -c "$*"
SHELL
    chmod 755 node
    (umask 077 && echo "$password" >password)
    chown -R oar:oar runtime password
    (umask 077 && cat >oar.conf) <<CONF
DB_TYPE="Pg"
DB_HOSTNAME="127.0.0.1"
DB_PORT="$((base + 1))"
DB_BASE_NAME="oar"
DB_BASE_LOGIN="oar"
DB_BASE_PASSWD="$password"
DB_BASE_LOGIN_RO="oar_ro"
DB_BASE_PASSWD_RO="$password"
SERVER_HOSTNAME="127.0.0.1"
SERVER_PORT="$base"
DEPLOY_HOSTNAME="127.0.0.1"
COSYSTEM_HOSTNAME="127.0.0.1"
OARSUB_DEFAULT_RESOURCES="/resource_id=1"
OARSUB_NODES_RESOURCES="network_address"
OARSUB_FORCE_JOB_KEY="no"
LOG_LEVEL="2"
LOG_CATEGORIES="all"
LOG_FILE="$dir/log/oar"
OAREXEC_DEBUG_MODE="0"
OAR_RUNTIME_DIRECTORY="$dir/runtime"
DETACH_JOB_FROM_SERVER="1"
OPENSSH_CMD="$dir/node"
FINAUD_FREQUENCY="0"
PINGCHECKER_GENERIC_COMMAND="/bin/true"
SCHEDULER_TIMEOUT="30"
SCHEDULER_NB_PROCESSES="1"
SCHEDULER_JOB_SECURITY_TIME="1"
SCHEDULER_GANTT_HOLE_MINIMUM_TIME="1"
SCHEDULER_RESOURCE_ORDER="scheduler_priority ASC, state_num ASC, available_upto DESC, suspended_jobs ASC, network_address ASC, resource_id ASC"
SCHEDULER_PRIORITY_HIERARCHY_ORDER="network_address/resource_id"
SCHEDULER_AVAILABLE_SUSPENDED_RESOURCE_TYPE="default"
SCHEDULER_FAIRSHARING_MAX_JOB_PER_USER="30"
ENERGY_SAVING_INTERNAL="no"
CPUSET_PATH="/oar"
OARSTAT_DEFAULT_OUTPUT_FORMAT="2"
CONF
    chown oar:oar oar.conf
    install -o oar -g oar -m 644 /dev/null log/oar
}

# --- The database -------------------------------------------------------------------------------------------------

database_programs() { echo /usr/lib/postgresql/*/bin | tr ' ' '\n' | sort -V | tail -1; }
database_answers() { setpriv --reuid=oar --regid=oar --init-groups "$(database_programs)/pg_isready" -q -h 127.0.0.1 -p $((base + 1)); }

make_database() {
    install -d -o oar -g oar -m 700 database
    [ -e database/PG_VERSION ] || setpriv --reuid=oar --regid=oar --init-groups "$(database_programs)/initdb" -D "$dir/database" \
        --username=admin --pwfile="$dir/password" --auth=scram-sha-256 --encoding=UTF8 --no-locale --no-sync >log/initdb 2>&1 ||
        fail "initdb: $(tail -1 log/initdb)"
}

start_database() {
    begin database setpriv --reuid=oar --regid=oar --init-groups "$(database_programs)/postgres" -D "$dir/database" \
        -c listen_addresses=127.0.0.1 -c port=$((base + 1)) -c unix_socket_directories= -c fsync=off -c shared_buffers=16MB
    within 30 database_answers || fail "postgres: $(tail -1 log/database.out)"
}

fill_database() {
    [ ! -e filled ] || return 0
    local password node has
    password=$(cat password)
    PGDATABASE=postgres oar-database --create --conf="$dir/oar.conf" --db-admin-user=admin --db-admin-pass="$password" \
        --force-yes </dev/null >log/fill 2>&1 || fail "oar-database: $(tail -1 log/fill)"
    for ((node = 1; node <= nodes; node++)); do
        for ((core = 1; core <= cpus; core++)); do
            "${as_oar[@]}" $HOME_OF_OAR/oarnodesetting -a -h "node$node" >>log/fill 2>&1 || fail "oarnodesetting: $(tail -1 log/fill)"
        done
    done
    # What nodes have is what their properties say.
    "${as_oar[@]}" $HOME_OF_OAR/oarproperty -a memnode >>log/fill 2>&1 || fail "oarproperty: $(tail -1 log/fill)"
    "${as_oar[@]}" $HOME_OF_OAR/oarproperty -a scratch_mb >>log/fill 2>&1 || fail "oarproperty: $(tail -1 log/fill)"
    "${as_oar[@]}" $HOME_OF_OAR/oarproperty -a gpu_count >>log/fill 2>&1 || fail "oarproperty: $(tail -1 log/fill)"
    "${as_oar[@]}" $HOME_OF_OAR/oarproperty -c -a gpu_model >>log/fill 2>&1 || fail "oarproperty: $(tail -1 log/fill)"
    for ((node = 1; node <= nodes; node++)); do
        has=(-p memnode=1000 -p scratch_mb=2000 -p gpu_count=0)
        [ $node -gt 1 ] || has=(-p memnode=1000 -p scratch_mb=2000 -p gpu_count=2 -p gpu_model=A100)
        "${as_oar[@]}" $HOME_OF_OAR/oarnodesetting -h "node$node" "${has[@]}" >>log/fill 2>&1 || fail "oarnodesetting: $(tail -1 log/fill)"
    done
    for unit in 1 2; do
        "${as_oar[@]}" $HOME_OF_OAR/oarnodesetting -a -h '' -p type=matlab >>log/fill 2>&1 || fail "oarnodesetting: $(tail -1 log/fill)"
    done
    touch filled
}

# --- Verbs --------------------------------------------------------------------------------------------------------

usable_nodes() { { timeout 10 "$dir/bin/oarnodes" --sql "state = 'Alive'" -l 2>/dev/null || true; } | sort -u | grep -c . || true; }
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$base") 2>/dev/null; }
all_usable() { lives almighty && listens && [ "$(usable_nodes)" = "$nodes" ]; }
report() { echo "$(usable_nodes)/$nodes $dir/bin $USER_OF_JOBS"; }
has_no_jobs() { ! timeout 10 "$dir/bin/oarstat" 2>/dev/null | grep -q '^[0-9]'; }

# Processes that run jobs are no children of the daemon that started them. They, and children of the daemon, have our
# configuration in their environment. A job has our files open, and its own processes descend from it.
left_behind() {
    local roots
    roots=$(grep -lzE "^(OARCONFFILE=$conf\$|OAR_NODEFILE=$dir/)" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3 || true)
    [ -n "$roots" ] || return 0
    descendants $roots
}

# Forked processes of the daemon survive it, keep its port, and have no environment. They are in the same session.
forked() { local pid; [ -s run/almighty ] && read -r pid _ <run/almighty && ps -o user=,pid= -s "$pid" 2>/dev/null | awk '$1 == "oar" {print $2}'; }

lock() { exec 9<"$settings"; flock -w 300 9 || fail "another start or stop works in $dir"; }

start() {
    [ "$(id -u)" = 0 ] || impossible "expected root: OAR starts jobs for everybody"
    [ -f /etc/debian_version ] && command -v apt-get >/dev/null || impossible "expected Debian: its packages of OAR are installed"
    [ -f "$settings" ] || [ -z "$(ls -A "$dir")" ] || fail "$dir is neither empty nor made by this script"
    touch "$settings"
    lock
    mkdir -p log run
    (
        # Of several scripts that start at once, one installs.
        exec 8>/run/lock/pliant-oar-packages
        flock -w 300 8
        install_packages oar-server oar-server-pgsql oar-user oar-user-pgsql oar-node postgresql libjson-perl procps
    )
    getent passwd $USER_OF_JOBS >/dev/null || useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /bin/sh $USER_OF_JOBS ||
        impossible "cannot make the user $USER_OF_JOBS"
    if [ -s "$settings" ]; then
        . "$settings" # as it was started before
        link_configuration
    else
        base=$(free_ports 2 $FIRST_PORT $LAST_PORT) || fail "no two free ports between $FIRST_PORT and $LAST_PORT"
        write_files
        link_configuration
        copy_commands
        declare -p nodes cpus base conf >"$settings"
    fi
    be_oar
    make_database
    start_database
    fill_database
    lives almighty || kill -KILL $(forked) 2>/dev/null || true
    begin almighty "${as_oar[@]}" $HOME_OF_OAR/Almighty
    within $TIMEOUT_S all_usable || { report >&2; fail "not usable after $TIMEOUT_S s: see $dir/log"; }
    report
}

stop() {
    [ -f "$settings" ] || fail "$dir was not made by this script"
    lock
    # The start may have failed before there were settings or processes.
    [ -s "$settings" ] && . "$settings"
    send CONT $(started_here) # a test may have stopped one
    if lives almighty; then
        timeout 20 bin/oardel --sql "state NOT IN ('Terminated', 'Error')" >/dev/null 2>&1 || true
        within 8 has_no_jobs || true
    fi
    kill -KILL $(forked) 2>/dev/null || true
    [ -z "$conf" ] || within 10 swept || fail "jobs still there: $(left_behind | tr '\n' ' ')"
    send INT database
    within 10 none_lives || { send KILL $(started_here); within 10 none_lives || fail "still there: $(started_here)"; }
    [ -z "$conf" ] || rm -f "$conf"
    # The logs stay, to find the causes of failures.
    rm -rf run database runtime bin perl node oar.conf password filled
    : >"$settings"
}

case $verb in
start) start ;;
stop) stop ;;
status)
    [ -s "$settings" ] || { echo "nothing runs in $dir"; exit 1; }
    . "$settings"
    report
    ;;
*) usage ;;
esac
