#!/bin/bash
# Real Slurm clusters on one Debian host, to test Pliant. Not for production: everything is on loopback,
# and every node is this host. With --resources memory, GPUs that do not exist, features and licences are handed out.
#
#   slurm.sh start DIR [--clusters 3] [--nodes 4] [--cpus 4] [--backfill-s 1] [--accounting] [--resources]
#   slurm.sh status DIR      one line per cluster: name, usable nodes, its slurm.conf
#   slurm.sh stop DIR        ends what was started from DIR, and nothing else
#
# Needs root and Debian; installs Debian's own packages if they are missing. DIR is new, or of an earlier start.
# Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not possible on this machine.
set -euo pipefail
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
unset SLURM_CONF

FIRST_PORT=20000 LAST_PORT=32000 # below the ports that the system assigns
TIMEOUT_S=90

usage() { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
fail() { echo "error: $*" >&2; exit 1; }
impossible() { echo "error: $*" >&2; exit 3; }
. "$(dirname "$0")/processes.sh"

# --- Settings -----------------------------------------------------------------------------------------------------

verb=${1:-} dir=${2:-}
[ -n "$verb" ] && [ -n "$dir" ] || usage
shift 2
clusters=3 nodes=4 cpus=4 backfill_s=1 accounting=no resources=no base=0
while [ $# -gt 0 ]; do
    case $1 in
    --clusters) clusters=${2:-} ;;
    --nodes) nodes=${2:-} ;;
    --cpus) cpus=${2:-} ;;
    --backfill-s) backfill_s=${2:-} ;;
    --accounting) accounting=yes; shift; continue ;;
    --resources) resources=yes; shift; continue ;;
    *) usage ;;
    esac
    [[ ${2:-} =~ ^[1-9][0-9]{0,2}$ ]] || usage
    shift 2
done

mkdir -p "$dir" || fail "cannot make $dir"
dir=$(cd "$dir" && pwd -P)
# The folder has sockets, and the system limits the length of their names. Slurm's file has no quotes.
[[ $dir =~ ^[A-Za-z0-9/._-]{1,80}$ ]] || fail "expected a folder of at most 80 letters, digits and / . _ -, found $dir"
cd "$dir"
settings=$dir/settings

names() { local all=(alpha beta gamma delta epsilon zeta eta theta) i; for ((i = 0; i < clusters; i++)); do echo "${all[i]:-cluster$i}"; done; }

# --- Processes ----------------------------------------------------------------------------------------------------

# Step daemons and jobs are no children of the daemon that started them. A step daemon has a log of ours open. A job has
# our slurm.conf and its number in its environment, and its own processes descend from it.
left_behind() {
    local roots pid
    roots=$(for pid in $(grep -lx slurmstepd /proc/[0-9]*/comm 2>/dev/null | cut -d/ -f3); do
        if find "/proc/$pid/fd" -lname "$dir/*" 2>/dev/null | grep -q .; then echo "$pid"; fi
    done
    for pid in $(grep -lz "^SLURM_CONF=$dir/" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
        if grep -qz '^SLURM_JOB_ID=' "/proc/$pid/environ" 2>/dev/null; then echo "$pid"; fi
    done)
    [ -n "$roots" ] || return 0
    descendants $roots
}

# --- What is needed -----------------------------------------------------------------------------------------------

packages() {
    echo slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge
    [ $accounting = no ] || echo slurmdbd slurm-wlm-mysql-plugin mariadb-server
}

# Slurm's daemons listen on the address of their host's name. If that is not loopback, they get another name.
find_host() {
    host=$(hostname -s) launcher=()
    address=$(getent ahostsv4 "$(hostname)" | awk '{print $1; exit}')
    case $address in
    127.*) ;;
    *)
        host=localhost address=127.0.0.1
        launcher=(unshare --uts sh -c 'hostname localhost && exec "$@"' sh)
        "${launcher[@]}" true 2>/dev/null || impossible "$(hostname) is not a loopback address, and unshare --uts is not allowed"
        ;;
    esac
}

# Each cluster has consecutive ports: one for its controller and one for each node. The database of accounts has the first port of all.
choose_ports() {
    local count=$((1 + clusters * (nodes + 1)))
    base=$(free_ports $count $FIRST_PORT $LAST_PORT) || fail "no $count free ports in a row between $FIRST_PORT and $LAST_PORT"
}

# --- The files of a cluster ---------------------------------------------------------------------------------------

write_cluster() { # write_cluster NAME PORT
    local name=$1 port=$2 home=$dir/$1
    mkdir -p "$home/state" "$home/spool"
    cat >"$home/slurm.conf" <<END
ClusterName=$name
SlurmctldHost=$host($address)
SlurmctldPort=$port
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/munge/socket
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation=$home/state
SlurmctldPidFile=$home/slurmctld.pid
SlurmctldLogFile=$dir/log/$name.controller
SlurmdSpoolDir=$home/spool/%n
SlurmdPidFile=$home/spool/%n.pid
SlurmdLogFile=$dir/log/%n.node
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
PropagateResourceLimits=NONE
ReturnToService=2
KillWait=3
SelectType=select/cons_tres
SelectTypeParameters=$([ $resources = yes ] && echo CR_CPU_Memory || echo CR_CPU)
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=$backfill_s,bf_resolution=1,bf_window=20160,bf_max_job_test=2000,bf_continue,sched_interval=2
JobCompType=jobcomp/filetxt
JobCompLoc=$home/completed
NodeName=${name}[1-$nodes] NodeHostname=$host NodeAddr=$address Port=[$((port + 1))-$((port + nodes))] CPUs=$cpus RealMemory=1000 $(node_resources) State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES DefaultTime=10 MaxTime=INFINITE State=UP
END
    [ $resources = no ] || write_resources "$name" "$home"
    [ $accounting = no ] || cat >>"$home/slurm.conf" <<END
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=$address
AccountingStoragePort=$base
AccountingStoragePass=$dir/munge/socket
JobAcctGatherType=jobacct_gather/none
END
}

node_resources() { [ $resources = no ] || echo "TmpDisk=2000 Gres=gpu:a100:2 Feature=fast"; }

# Two GPUs of each node, whose devices are files. A partition whose jobs have more memory.
write_resources() { # write_resources NAME HOME
    cat >>"$2/slurm.conf" <<END
GresTypes=gpu
DefMemPerCPU=100
Licenses=matlab:2
PartitionName=large Nodes=$1[1-1] DefMemPerCPU=200 State=UP
END
    local node
    mkdir -p "$2/gpus"
    for ((node = 1; node <= nodes; node++)); do
        touch "$2/gpus/$node-"{0,1}
        echo "NodeName=$1$node Name=gpu Type=a100 File=$2/gpus/$node-[0-1]"
    done >"$2/gres.conf"
}

write_accounts() {
    mkdir -p accounts
    (umask 077 && cat >accounts/slurmdbd.conf) <<END
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
DbdHost=$host
DbdAddr=$address
DbdPort=$base
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_accounts
LogFile=$dir/log/accounts
PidFile=$dir/accounts/slurmdbd.pid
END
}

# --- Verbs --------------------------------------------------------------------------------------------------------

usable_nodes() { { SLURM_CONF=$dir/$1/slurm.conf timeout 5 sinfo -h -N -o '%N %T' 2>/dev/null || true; } | sort -u | grep -cE ' (idle|mixed|allocated|completing)$' || true; }
all_usable() { local name; for name in $(names); do [ "$(usable_nodes "$name")" = "$nodes" ] || return 1; done; }
report() { local name; for name in $(names); do echo "$name $(usable_nodes "$name")/$nodes $dir/$name/slurm.conf"; done; }
has_no_jobs() { ! SLURM_CONF=$1 timeout 10 squeue -h -a -o %A 2>/dev/null | grep -q .; }

start_munge() {
    mkdir -p munge && chmod 755 munge
    [ -s munge/key ] || (umask 077 && head -c 512 /dev/urandom >munge/key)
    lives munge || rm -f munge/socket*
    begin munge munged --foreground --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" \
        --seed-file="$dir/munge/seed" --pid-file="$dir/munge/pid" --log-file="$dir/log/munge"
    within 20 test -S munge/socket || fail "munged: $(tail -1 log/munge.out)"
}

start_accounts() {
    local database=$dir/accounts/socket client
    client=(mariadb --no-defaults --socket="$database" --user=root)
    # Two databases with one folder would take each other's temporary tables.
    mkdir -p accounts/tmp
    [ -d accounts/data ] || mariadb-install-db --no-defaults --user=root --datadir="$dir/accounts/data" --tmpdir="$dir/accounts/tmp" \
        --auth-root-authentication-method=normal >log/database 2>&1 || fail "mariadb-install-db: $(grep -m1 ERROR log/database || tail -1 log/database)"
    begin database mariadbd --no-defaults --user=root --datadir="$dir/accounts/data" --socket="$database" \
        --tmpdir="$dir/accounts/tmp" --skip-networking --innodb-buffer-pool-size=32M --pid-file="$dir/accounts/mariadbd.pid"
    within 60 "${client[@]}" -e 'SELECT 1' >/dev/null 2>&1 || fail "mariadbd: $(tail -1 log/database.out)"
    # The client library finds the socket by this variable only.
    export MYSQL_UNIX_PORT=$database
    begin accounts env SLURM_CONF="$dir/accounts/slurmdbd.conf" slurmdbd -D
    within 30 accounts_answer || fail "slurmdbd: $(tail -1 log/accounts)"
    local name
    for name in $(names); do
        SLURM_CONF=$dir/$name/slurm.conf sacctmgr -i add cluster "$name" >/dev/null 2>&1 || true
    done
}
# Until its controller has registered with the database, a cluster's jobs are recorded without their names.
all_registered() {
    local name
    for name in $(names); do
        SLURM_CONF=$dir/$name/slurm.conf timeout 5 sacctmgr -n -P list cluster "$name" format=ControlPort 2>/dev/null | grep -q '[1-9]' || return 1
    done
}
accounts_answer() { SLURM_CONF=$dir/$(names | head -1)/slurm.conf timeout 5 sacctmgr -n list cluster >/dev/null 2>&1; }

start() {
    local name port node
    [ "$(id -u)" = 0 ] || impossible "expected root: Slurm's daemons start jobs for everybody"
    [ -f /etc/debian_version ] && command -v apt-get >/dev/null || impossible "expected Debian: its packages of Slurm are installed"
    [ -f "$settings" ] || [ -z "$(ls -A "$dir")" ] || fail "$dir is neither empty nor made by this script"
    touch "$settings"
    exec 9<"$settings"
    flock -w 300 9 || fail "another start or stop works in $dir"
    mkdir -p log run
    install_packages $(packages)
    find_host
    if [ -s "$settings" ]; then
        . "$settings" # as it was started before
    else
        choose_ports
        port=$((base + 1))
        for name in $(names); do
            write_cluster "$name" $port
            port=$((port + 1 + nodes))
        done
        [ $accounting = no ] || write_accounts
        declare -p clusters nodes cpus backfill_s accounting resources base >"$settings"
    fi
    start_munge
    [ $accounting = no ] || start_accounts
    for name in $(names); do
        begin "$name" slurmctld -D -f "$dir/$name/slurm.conf"
        for ((node = 1; node <= nodes; node++)); do
            mkdir -p "$name/spool/$name$node"
            begin "$name$node" slurmd -D -N "$name$node" -f "$dir/$name/slurm.conf"
        done
    done
    [ $accounting = no ] || within 30 all_registered || fail "not in the accounts: see $dir/log"
    within $TIMEOUT_S all_usable || { report >&2; fail "not usable after $TIMEOUT_S s: see $dir/log"; }
    report
}

stop() {
    local name
    [ -f "$settings" ] || fail "$dir was not made by this script"
    exec 9<"$settings"
    flock -w 300 9 || fail "another start or stop works in $dir"
    # The start may have failed before there were settings or processes.
    [ -s "$settings" ] && . "$settings"
    send CONT $(started_here) # a test may have stopped one
    for name in $(names); do
        lives "$name" || continue
        export SLURM_CONF=$dir/$name/slurm.conf
        timeout 15 squeue -h -a -o %A 2>/dev/null | sort -u | xargs -r timeout 15 scancel 2>/dev/null || true
        within 8 has_no_jobs "$SLURM_CONF" || true
    done
    unset SLURM_CONF
    send TERM $(started_here)
    within 10 none_lives || { send KILL $(started_here); within 10 none_lives || fail "still there: $(started_here)"; }
    within 10 swept || fail "jobs still there: $(left_behind | tr '\n' ' ')"
    # The logs stay, to find the causes of failures.
    rm -rf run munge accounts
    for name in $(names); do rm -rf "${dir:?}/$name"; done
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
