/* SUCC of the stress as a function of a library, so that a call costs no process. */
int succ(int n, int *m)
{
    *m = n + 1;
    return 0;
}
