# The processes of a test cluster. A process is identified by its number and the time of its start, so that another process
# with the same number never gets a signal. The scripts that include this file work in the cluster's folder, which has `run/`
# and `log/`. `launcher` may hold the first words of each command.

born() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
lives() { # lives NAME
    local pid start
    [ -s "run/$1" ] && read -r pid start <"run/$1" && [ "$(born "$pid")" = "$start" ] && ! grep -q ') Z ' "/proc/$pid/stat"
} 2>/dev/null
started_here() { local file; for file in run/*; do [ -f "$file" ] && lives "${file#run/}" && echo "${file#run/}"; done; true; }
none_lives() { [ -z "$(started_here)" ]; }
begin() { # begin NAME COMMAND...
    local name=$1
    shift
    lives "$name" && return
    setsid "${launcher[@]}" "$@" </dev/null >"log/$name.out" 2>&1 9>&- &
    echo "$! $(born $!)" >"run/$name"
}
send() { # send SIGNAL NAME...
    local signal=$1 name pid start
    shift
    for name; do lives "$name" && read -r pid start <"run/$name" && kill "-$signal" "$pid" 2>/dev/null; done
    true
}
within() { # within SECONDS COMMAND...: until it succeeds
    local end=$((SECONDS + $1))
    shift
    until "$@"; do [ $SECONDS -lt $end ] || return 1; sleep 0.1; done
}

descendants() { # descendants PID...: these processes and all of their descendants
    local all parent more
    all=$(printf '%s\n' "$@")
    more=$all
    while [ -n "$more" ]; do
        parent=$(echo $more | tr ' ' ',')
        more=$(ps -o pid= --ppid "$parent" 2>/dev/null | tr -d ' ' | grep -vxF "$all" || true)
        all=$(printf '%s\n%s' "$all" "$more" | grep . || true)
    done
    echo "$all"
}
# Kills the processes that the script's `left_behind` finds, and succeeds when it finds none. It stops them first, because a
# process that forks could escape.
swept() {
    local found
    found=$(left_behind)
    [ -n "$found" ] || return 0
    kill -STOP $found 2>/dev/null || true
    kill -KILL $found $(left_behind) 2>/dev/null || true
    return 1
}

free_ports() { # free_ports COUNT FIRST LAST: the first of so many free ports in a row
    local taken try port base
    for try in {1..50}; do
        base=$(($2 + RANDOM % ($3 - $2 - $1)))
        taken=$(awk '$2 ~ /:/ {print strtonum("0x" substr($2, index($2, ":") + 1))}' /proc/net/tcp 2>/dev/null ||
            sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]*\) .*/\1/p' /proc/net/tcp | while read -r port; do echo $((16#$port)); done)
        for ((port = base; port < base + $1; port++)); do
            if grep -qx "$port" <<<"$taken"; then continue 2; fi
        done
        echo "$base"
        return 0
    done
    return 1
}

install_packages() { # install_packages NAME...: Debian's, if they are missing; in run level 1 no package starts its daemon
    local missing=() name
    for name; do
        dpkg-query -W -f '${Status}\n' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    local get=(env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=180 install)
    "${get[@]}" "${missing[@]}" >log/apt 2>&1 9>&- && return 0
    { apt-get -q update && "${get[@]}" "${missing[@]}"; } >>log/apt 2>&1 9>&- ||
        impossible "cannot install ${missing[*]}: $(grep -m1 '^E:' log/apt || tail -1 log/apt)"
}
