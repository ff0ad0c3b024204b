/* DIET_grpc.h: clients of DIET include it for the error codes. */
#include "DIET_client.h"
