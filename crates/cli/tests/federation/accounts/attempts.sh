# Run as a job of one user. Against what belongs to another user, the server or root each attempt must fail; against another job of
# the same user most must succeed, or this script shows nothing. The test puts the values of the variables in front.
try() {
    if (eval "$2") >/dev/null 2>&1 </dev/null; then echo "$1: ALLOWED"; else echo "$1: denied"; fi
}
case $(uname -m) in
    aarch64) ptrace_number=117 readv_number=270 ;;
    *) ptrace_number=101 readv_number=310 ;;
esac
# PTRACE_SEIZE, which does not stop what it attaches to.
ptrace() { perl -e 'exit(syscall($ARGV[1]+0, 0x4206, $ARGV[0]+0, 0, 0) == -1 ? 1 : 0)' "$1" $ptrace_number; }
# process_vm_readv of the first page that is mapped.
readv() {
    perl -e 'my $b = "x" x 8; my ($pid, $number) = @ARGV; open(M, "/proc/$pid/maps") or exit 1; my $at = hex((split /-/, <M>)[0]);
        my $to = pack("QQ", unpack("Q", pack("p", $b)), 8); my $from = pack("QQ", $at, 8);
        exit(syscall($number+0, $pid+0, $to, 1, $from, 1, 0) == 8 ? 0 : 1)' "$1" $readv_number
}

# Files of another user.
try "list another job's folder" 'ls $BOB_FILES'
try "enter another job's folder" 'cd $BOB_FILES'
try "read another job's script" 'cat $BOB_FILES/script'
try "read another job's file" 'cat $BOB_WORK/secret'
try "read another job's input" 'cat $BOB_WORK/given.txt'
try "write another job's file" 'echo x >> $BOB_WORK/secret'
try "make a file in another job's folder" 'touch $BOB_WORK/planted'
try "delete another job's file" 'rm $BOB_WORK/secret'
try "delete another job's folder" 'rm -r $BOB_FILES'
try "rename another job's folder" 'mv $BOB_FILES $SPOOL/elsewhere'
try "open another job's folder to all" 'chmod 777 $BOB_FILES'
try "take another job's folder" 'chown pta-alice $BOB_FILES'
try "link another job's file" 'ln $BOB_WORK/secret stolen && cat stolen'
try "read another job's file through a link" 'ln -s $BOB_WORK/secret through && cat through'
try "list all jobs' folders" 'ls $SPOOL'
try "make a folder among those of jobs" 'mkdir $SPOOL/job-999999'
try "put a link among the folders of jobs" 'ln -s /etc $SPOOL/job-999998'
try "read the home of another user" 'ls $BOB_HOME'

# Files of the server.
try "read the server's key" 'cat $SERVER_DIR/key.pem'
try "write the server's key" 'echo x >> $SERVER_DIR/key.pem'
try "delete the server's key" 'rm $SERVER_DIR/key.pem'
try "link the server's key" 'ln $SERVER_DIR/key.pem key && cat key'
try "write the server's configuration" 'echo x >> $SERVER_DIR/server.toml'
try "write the server's log" 'echo x >> $SERVER_DIR/log'
try "put a file into the server's folder" 'touch $SERVER_DIR/planted'
try "list the server's state" 'ls $SERVER_DIR/state'
try "read the server's journal" 'cat $JOURNAL'
try "write the server's journal" 'echo x >> $JOURNAL'
try "delete the server's state" 'rm -r $SERVER_DIR/state'
try "list the server's uploads" 'ls $SERVER_DIR/state/staging'
try "fill the server's uploads" 'echo x > $SERVER_DIR/state/staging/incoming/planted'
try "list records of jobs" 'ls $SERVER_DIR/state/jobs'
try "read the records of another job" 'cat $SERVER_DIR/state/jobs/$BOB_NUMBER/spec.json'
try "read the output of another job" 'cat $SERVER_DIR/state/jobs/$BOB_NUMBER/stdout'
try "forge its own end" 'echo {} > $SERVER_DIR/state/jobs/$OWN_NUMBER/exit.json'
try "remove the record of its own start" 'rm $SERVER_DIR/state/jobs/$OWN_NUMBER/started.json'
try "cancel another job by its records" 'touch $SERVER_DIR/state/jobs/$BOB_NUMBER/cancel'
try "overwrite its own output" ': > $SERVER_DIR/state/jobs/$OWN_NUMBER/stdout'

# Processes, as /proc shows them.
for process in server=$SERVER_PID supervisor=$OWN_SUPERVISOR another-supervisor=$BOB_SUPERVISOR another-job=$BOB_PID; do
    name=${process%%=*}; pid=${process##*=}
    try "read the environment of $name" "cat /proc/$pid/environ"
    try "read the memory of $name" ": < /proc/$pid/mem"
    try "read the memory map of $name" "head -c1 /proc/$pid/maps | grep -q ."
    try "read the memory of $name in one call" "readv $pid"
    try "list the descriptors of $name" "ls /proc/$pid/fd"
    try "open a descriptor of $name" "cat /proc/$pid/fd/0"
    try "enter the working folder of $name" "cd /proc/$pid/cwd"
    try "see through the root of $name" "ls /proc/$pid/root/"
    try "attach to $name" "ptrace $pid"
    try "kill $name" "kill -KILL $pid"
    try "stop $name" "kill -STOP $pid"
    try "end $name" "kill -TERM $pid"
    try "make $name slower" "renice -n 19 -p $pid"
    try "limit $name" "prlimit --pid $pid --nofile=1:1"
    try "offer $name to the memory killer" "echo 1000 > /proc/$pid/oom_score_adj"
done
try "kill the group of another job" 'kill -KILL -$BOB_PID'

# Shared memory and sockets.
try "attach to another user's shared memory" 'perl -e "exit(defined shmget($SHARED_MEMORY, 1, 0400) ? 0 : 1)"'
try "listen where the server listens" 'perl -MIO::Socket::INET -e "IO::Socket::INET->new(Listen=>1,LocalAddr=>q($ADDRESS),ReuseAddr=>1) or exit 1"'
try "ask the server without a certificate" 'perl -MIO::Socket::INET -e "\$s=IO::Socket::INET->new(q($ADDRESS)) or exit 1; print \$s qq(PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n); \$s->shutdown(1); sysread(\$s,\$b,9) == 9 && ord(substr(\$b,3,1)) == 4 or exit 1"'

# Set-user-id programs and rights of root.
try "call the launcher" '$LAUNCHER; test $? = 125'
try "read the launcher" 'cat $LAUNCHER'
try "copy the launcher" 'cp $LAUNCHER copy && chmod 4750 copy && ./copy'
try "replace the launcher" 'cp /bin/sh $LAUNCHER'
try "write the launcher's file" 'echo x >> $LAUNCHER_FILE'
try "replace the launcher's file" 'mv /dev/null $LAUNCHER_FILE || rm -f $LAUNCHER_FILE'
try "replace the server's program" 'cp /bin/sh $PLIANT'
try "run the helper in another job's folder" 'echo "\"longest\"" | $PLIANT job-folder $BOB_FILES | grep -q longest && ls $BOB_FILES'
try "put files with the helper into the server's state" 'printf "{\"put\":{\"script\":1,\"tasks\":null,\"inputs\":[],\"shared\":[]}}\nx" | $PLIANT job-folder $SERVER_DIR/state/jobs/$BOB_NUMBER | grep -q \"put\"'
try "become root" 'perl -e "\$> = 0; exit(\$> != 0)"'
try "become another user" 'perl -e "\$< = \$ARGV[0]; \$> = \$ARGV[0]; exit(\$> != \$ARGV[0])" $BOB_UID'
try "take the server's group" 'perl -e "\$) = qq(\$ARGV[0] \$ARGV[0]); exit((split / /, \$))[0] != \$ARGV[0])" $SERVER_GID'
try "be in a group of root's" 'id -G | grep -qw 0'
try "switch the user without a password" 'su pta-bob -c true'
try "make a file set-user-id of another" 'cp /bin/sh sh && chown pta-bob sh'
try "mount" 'mount -t tmpfs none .'
try "make a device" 'mknod device b 1 1'
try "change the root" 'chroot / true'

# What is inherited.
try "inherited descriptors" 'perl -e "opendir(D,q(/proc/self/fd)); \$own=-1; for (readdir D) { next if /^\.|^[012]$/; \$t=readlink qq(/proc/self/fd/\$_); next if !defined \$t || \$t =~ m{^/proc/}; next if \$t =~ m{/script$}; exit 0 } exit 1"'
try "a secret in the environment" 'env | grep -i "TEST_SECRET\|key.pem\|SUPERVISOR"'
try "something on standard input" 'head -c1 <&9 | grep -q .' 9<&0
try "core dumps" 'ulimit -c unlimited && test "$(ulimit -c)" = unlimited'

# The host.
try "write into cron" 'echo x > /etc/cron.d/planted'
try "write another user's cron table" 'echo x > /var/spool/cron/crontabs/pta-bob || crontab -u pta-bob /dev/null'
try "queue a command as the server's user" 'echo x > /var/spool/cron/atjobs/planted || at -f /dev/null -u pta-server now'
try "load a module" 'modprobe dummy || insmod /dev/null'
try "set the host's name" 'hostname planted'
try "write the accounts" 'echo x >> /etc/passwd'
try "read the passwords" 'cat /etc/shadow'
try "write into /etc/pliant" 'mkdir -p /etc/pliant && touch /etc/pliant/planted'
try "write a program" 'touch /usr/bin/planted'
