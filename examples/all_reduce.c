// Sums vectors over all ranks, in C: one while it waits, one while it could compute.
//
//   mpirun -n 4 all_reduce [TRANSPORT]      or under torchrun, srun, or with PLEACH_RANK,
//   PLEACH_RANK_COUNT and PLEACH_STORE=HOST:PORT set for each rank
#include <pleach/api/pleach.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000 };

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, pleach_last_error());
  return 1;
}

static void on_done(void* context, pleach_status status, const char* error) {
  if (status != PLEACH_OK) {
    fprintf(stderr, "in the background: %s\n", error);
  }
  *(pleach_status*)context = status;
}

// Two vectors of ones and twos; whether all sums are right.
static int sum(pleach_communicator* communicator, const char* transport) {
  static float ones[COUNT], ones_sum[COUNT], twos[COUNT];
  const float ranks = (float)pleach_communicator_rank_count(communicator);
  static pleach_status told = PLEACH_INTERNAL;
  pleach_operation* operation;
  int i, wrong = 0;

  for (i = 0; i < COUNT; ++i) {
    ones[i] = 1;
    twos[i] = 2;
  }
  // In place, and at once on its way.
  if (pleach_all_reduce(communicator, twos, twos, COUNT, PLEACH_FLOAT32, PLEACH_SUM, &operation)) {
    return failed("starting");
  }
  pleach_operation_on_done(operation, on_done, &told);
  if (pleach_all_reduce(communicator, ones, ones_sum, COUNT, PLEACH_FLOAT32, PLEACH_SUM, NULL)) {
    return failed("waiting");
  }
  if (pleach_operation_wait(operation, PLEACH_FOREVER)) {
    return failed("finishing");
  }
  pleach_operation_destroy(operation);

  for (i = 0; i < COUNT; ++i) {
    wrong += ones_sum[i] != ranks || twos[i] != 2 * ranks;
  }
  if (pleach_communicator_close(communicator)) {  // callbacks have returned then
    return failed("closing");
  }
  printf("rank %d of %d over %s: %d wrong\n", (int)pleach_communicator_rank(communicator),
         (int)ranks, transport, wrong);
  return wrong > 0 || told != PLEACH_OK;
}

int main(int argc, char** argv) {
  pleach_endpoint_options options = {.size = sizeof options};  // who is who: the starter tells
  pleach_endpoint* endpoint;
  pleach_communicator* communicator;
  int status = 1;

  options.transport = argc > 1 ? argv[1] : NULL;
  if (pleach_endpoint_create(&options, &endpoint)) {
    return failed("joining");
  }
  if (pleach_communicator_create(endpoint, NULL, &communicator)) {
    failed("meeting");
  } else {
    status = sum(communicator, pleach_endpoint_transport(endpoint));
    pleach_communicator_destroy(communicator);
  }
  pleach_endpoint_destroy(endpoint);
  return status;
}
