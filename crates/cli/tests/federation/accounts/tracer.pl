# Run as a job: tries to attach to each process of the server's that begins as the same user, until the file "over" is there. Says how
# many it has seen, and stops at the first success.
use strict;
my ($ptrace, $over) = @ARGV;
my ($seize, $interrupt, $detach, $any_child) = (0x4206, 0x4207, 17, 0x40000000);
opendir(my $all, "/proc") or die;
my %old = map { $_ => 1 } readdir $all;
my %seen;
sub is_target {
    open(my $file, "<", "/proc/$_[0]/cmdline") or return 0;
    return (<$file> // "") =~ /\0job-folder\0/;
}
until (-e $over) {
    rewinddir $all;
    for my $pid (grep { /^\d+$/ && !$old{$_} } readdir $all) {
        next unless is_target($pid);
        $seen{$pid} = 1;
        for my $file ("environ", "mem") {
            if (open(my $opened, "<", "/proc/$pid/$file")) {
                found("opened $file") if is_target($pid);
            }
        }
        next if syscall($ptrace + 0, $seize, $pid + 0, 0, 0) == -1;
        found("attached") if is_target($pid);
        # It has become a job.
        syscall($ptrace + 0, $interrupt, $pid + 0, 0, 0);
        waitpid($pid, $any_child);
        syscall($ptrace + 0, $detach, $pid + 0, 0, 0);
    }
}
print "seen ", scalar(keys %seen), "\n";

sub found {
    print "$_[0]\n";
    exit 0;
}
