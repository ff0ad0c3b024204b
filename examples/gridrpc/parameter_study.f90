! A parameter study in Fortran: as parameter_study.c. Fortran cannot pass variable arguments to C, so calls go through
! pliant_grpc_call_array_async, which takes the address of each argument.
!
!     gfortran -o parameter_study parameter_study.f90 $(pkg-config --libs pliant-gridrpc)
!     ./parameter_study CLIENT_FILE
module grpc
    use, intrinsic :: iso_c_binding
    implicit none

    integer(c_int), parameter :: grpc_no_error = 0, grpc_sessionid_void = -1

    ! The address of a variable identifies the handle: give it the attribute `target`, and do not copy it.
    type, bind(c) :: grpc_function_handle_t
        type(c_ptr) :: reserved(2)
    end type

    interface
        integer(c_int) function grpc_initialize(config_file) bind(c)
            import :: c_int, c_char
            character(kind=c_char), intent(in) :: config_file(*)
        end function
        integer(c_int) function grpc_finalize() bind(c)
            import :: c_int
        end function
        integer(c_int) function grpc_function_handle_default(handle, function_name) bind(c)
            import :: c_int, c_char, grpc_function_handle_t
            type(grpc_function_handle_t), intent(inout) :: handle
            character(kind=c_char), intent(in) :: function_name(*)
        end function
        integer(c_int) function pliant_grpc_call_array_async(handle, session, arguments, count) bind(c)
            import :: c_int, c_ptr, c_size_t, grpc_function_handle_t
            type(grpc_function_handle_t), intent(inout) :: handle
            integer(c_int), intent(out) :: session
            type(c_ptr), intent(in) :: arguments(*)
            integer(c_size_t), value :: count
        end function
        integer(c_int) function grpc_wait_and(sessions, length) bind(c)
            import :: c_int, c_size_t
            integer(c_int), intent(in) :: sessions(*)
            integer(c_size_t), value :: length
        end function
        integer(c_size_t) function pliant_grpc_last_error_text(buffer, size) bind(c)
            import :: c_size_t, c_char
            character(kind=c_char), intent(out) :: buffer(*)
            integer(c_size_t), value :: size
        end function
    end interface

contains

    subroutine check(error, what)
        integer(c_int), intent(in) :: error
        character(*), intent(in) :: what
        character(kind=c_char) :: buffer(500)
        integer(c_size_t) :: length
        if (error == grpc_no_error) return
        length = min(pliant_grpc_last_error_text(buffer, 500_c_size_t), 499_c_size_t)
        write (*, '(a, ": error ", i0, ": ", 499a1)') what, error, buffer(1:length)
        stop 1
    end subroutine

end module

program parameter_study
    use grpc
    implicit none
    integer, parameter :: points = 40
    type(grpc_function_handle_t), target :: oscillator
    integer(c_int) :: sessions(points)
    real(c_double), target :: frequencies(points), amplitudes(points), damping = 0.2_c_double
    character(1000) :: config
    integer :: point, best

    call get_command_argument(1, config)
    call check(grpc_initialize(trim(config) // c_null_char), 'initialize')
    call check(grpc_function_handle_default(oscillator, 'oscillator' // c_null_char), 'oscillator')
    do point = 1, points
        frequencies(point) = 0.05_c_double * (point - 1)
        call check(pliant_grpc_call_array_async(oscillator, sessions(point), &
            [c_loc(frequencies(point)), c_loc(damping), c_loc(amplitudes(point))], 3_c_size_t), 'call')
    end do
    call check(grpc_wait_and(sessions, int(points, c_size_t)), 'wait')
    best = maxloc(amplitudes, dim=1)
    call check(grpc_finalize(), 'finalize')
    write (*, '(a, f4.2, a, f4.2)') 'largest amplitude ', amplitudes(best), ' at frequency ', frequencies(best)
end program
