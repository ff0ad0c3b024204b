// A parameter study in C++: as parameter_study.c, with the library and the handle as objects that end by themselves.
//
//     c++ -std=c++17 -o parameter_study parameter_study.cpp $(pkg-config --cflags --libs pliant-gridrpc)
//     ./parameter_study [CLIENT_FILE]
#include <grpc.h>

#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

static void check(grpc_error_t error)
{
    if (error != GRPC_NO_ERROR) {
        std::string text(pliant_grpc_last_error_text(nullptr, 0) + 1, '\0');
        pliant_grpc_last_error_text(text.data(), text.size());
        throw std::runtime_error(std::string(grpc_error_string(error)) + ": " + text);
    }
}

struct Library {
    explicit Library(const char *config) { check(grpc_initialize(config)); }
    ~Library() { grpc_finalize(); }
    Library(const Library &) = delete;
    Library &operator=(const Library &) = delete;
};

// A handle is known by its address, so it is neither copied nor moved.
class Function {
public:
    explicit Function(const char *name) { check(grpc_function_handle_default(&handle_, name)); }
    ~Function() { grpc_function_handle_destruct(&handle_); }
    Function(const Function &) = delete;
    Function &operator=(const Function &) = delete;

    template <typename... Arguments> grpc_sessionid_t call(Arguments... arguments)
    {
        grpc_sessionid_t session;
        check(grpc_call_async(&handle_, &session, arguments...));
        return session;
    }

private:
    grpc_function_handle_t handle_;
};

int main(int count, char **arguments)
try {
    const int points = 40;
    Library library(count > 1 ? arguments[1] : nullptr);
    Function oscillator("oscillator");
    std::vector<double> amplitudes(points);
    std::map<grpc_sessionid_t, int> started;
    for (int point = 0; point < points; point++) {
        started[oscillator.call(0.05 * point, 0.2, &amplitudes[point])] = point;
    }
    int best = 0;
    grpc_sessionid_t ended;
    for (check(grpc_wait_any(&ended)); ended != GRPC_SESSIONID_VOID; check(grpc_wait_any(&ended))) {
        int point = started.at(ended);
        best = amplitudes[point] > amplitudes[best] ? point : best;
    }
    std::printf("largest amplitude %.2f at frequency %.2f\n", amplitudes[best], 0.05 * best);
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
