// Pleach's C interface: collectives and messages among ranks, and what it takes to set them up.
//
// C99, and C++. A function that can fail returns a pleach_status; what went wrong is then one line
// in pleach_last_error(). Handles are opaque, and belong to the caller until their destroy function
// is called; they may be destroyed in any order, as each keeps what it needs. Structs of options
// begin with their size, and a zero in any field means its default, so that they may grow: set
// them up as `pleach_endpoint_options options = {.size = sizeof options};`. Types are numbers of a
// fixed width, whose values do not change within one PLEACH_ABI_VERSION.
//
// Threads: every function may be called from any thread, on any handle, but for a handle's destroy
// function, which comes last.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "pleach/api/pleach_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PLEACH_ABI_VERSION 1

// As a timeout: as long as it takes.
#define PLEACH_FOREVER (-1)

typedef struct pleach_endpoint pleach_endpoint;          // this rank's end of a job
typedef struct pleach_communicator pleach_communicator;  // a view of it: all of its ranks, or some
typedef struct pleach_operation pleach_operation;        // what has been started

// The library's, "0.1.0"; and the PLEACH_ABI_VERSION that it was built as.
const char* pleach_version(void);
int32_t pleach_abi_version(void);

// Why a function failed that this thread has called last of those that failed; "" before the
// first. Valid until the thread's next call that fails.
const char* pleach_last_error(void);

// Sets a function that this thread's calls, but for pleach_operation_wait(), ask some 20 times a
// second, NULL: none. If it returns other than 0 they end with PLEACH_INTERRUPTED, and with them
// the job, or a collective's communicator. It must not call this library.
typedef int32_t (*pleach_interrupt)(void* context);
void pleach_set_interrupt(pleach_interrupt is_interrupted, void* context);

// --- Endpoints. In a child of fork() they, and all that is made of them, refuse what is asked of
// them, and may be destroyed.

typedef struct pleach_endpoint_options {
  size_t size;
  // 0: the starter (`pleach`, torchrun, mpirun, srun) tells by environment variables who is which
  // rank and where the store is; the next six fields are then left alone.
  int32_t rank_count;
  int32_t rank;
  // Rank 0 serves the store there, the others look for it. NULL: 127.0.0.1.
  const char* store_host;
  int32_t store_port;
  // Rank 0: serve on this socket of pleach_listen(), which is taken over.
  int32_t listen_descriptor;
  const char* job;     // ranks of different jobs do not hear each other
  const char* secret;  // NULL: what PLEACH_SECRET or PLEACH_SECRET_FILE says, if anything
  // "tcp", "tcp,sockets=2", "shm", "host" (memory within a host, TCP between), "auto". NULL: auto,
  // the one that joins all ranks by memory where they share it
  const char* transport;
  int64_t deadline_ms;        // of every wait. 0: 30 s
  const char* flight_folder;  // NULL: PLEACH_FLIGHT_FOLDER
} pleach_endpoint_options;

// A socket for rank 0 to serve the store on, where its port has to be known to the others before.
// port: 0 on entry picks a free one.
pleach_status pleach_listen(const char* host, int32_t* port, int32_t* descriptor);

// Joins the job. options: NULL is all defaults.
pleach_status pleach_endpoint_create(const pleach_endpoint_options* options,
                                     pleach_endpoint** endpoint);
// Writes this rank's last operations to a whole new file: FOLDER/rank-R.json for `pleach flight`.
pleach_status pleach_endpoint_write_flight(const pleach_endpoint* endpoint, const char* path);
// Leaves at once, to end the process; rank 0 serves the others so long first (docs/runtime.md).
pleach_status pleach_endpoint_leave(pleach_endpoint* endpoint, int64_t patience_ms);
// Leaves it, when the last communicator and operation over it has been destroyed too. NULL: nothing
// happens, as in all of the destroy functions.
void pleach_endpoint_destroy(pleach_endpoint* endpoint);
// -1 or NULL, and an error, where the handle is NULL.
int32_t pleach_endpoint_rank(const pleach_endpoint* endpoint);
int32_t pleach_endpoint_rank_count(const pleach_endpoint* endpoint);
const char* pleach_endpoint_transport(const pleach_endpoint* endpoint);  // as long as the handle

// --- Communicators. All of their ranks create, split and close them together.

typedef struct pleach_communicator_options {
  size_t size;
  const char* name;        // distinct groups of the same ranks differ in it. NULL: "world"
  const int32_t* ranks;    // of the job, by rank here: another order is another group. NULL: all
  int32_t rank_count;      // of `ranks`
  int32_t landing_places;  // per connection. 0: 4
  int64_t place_bytes;     // 0: 256 KiB
  // A file of rank 0, a book of `pleach plan` or a schedule: what is run. NULL: PLEACH_BOOK's,
  // where all of the job's ranks take part, or what rank 0 plans, once for this transport, number
  // of ranks and their hosts. Parts of other sizes are planned for.
  const char* book;
  int32_t fails_alone;  // not 0: a failure of it ends no other; it cannot be shrunk
} pleach_communicator_options;

pleach_status pleach_communicator_create(pleach_endpoint* endpoint,
                                         const pleach_communicator_options* options,
                                         pleach_communicator** communicator);
// One for each colour >= 0, of the ranks that give it, ordered by key and then by rank here. A
// negative one: *part is NULL.
pleach_status pleach_communicator_split(pleach_communicator* communicator, int32_t color,
                                        int32_t key, pleach_communicator** part);
// Among all ranks that live, after a failure: of those of this communicator's ranks that go on, in
// their order. What else is in flight over the endpoint has ended then; the others may be shrunk
// too, in one order. It may be called again where somebody else is lost meanwhile.
pleach_status pleach_communicator_shrink(pleach_communicator* communicator,
                                         pleach_communicator** survivors);
// Ends all that is in flight or waited for, on every rank, which is told the reason. From any
// thread or callback; nothing happens where it is closed, something has failed already, or in a
// child of fork().
pleach_status pleach_communicator_abort(pleach_communicator* communicator, const char* reason);
// Leaves in order. Refused while operations are in flight.
pleach_status pleach_communicator_close(pleach_communicator* communicator);
// One that was not closed is a failure of this rank: what is in flight ends, on all ranks.
void pleach_communicator_destroy(pleach_communicator* communicator);
// -1, and an error, where the handle is NULL.
int32_t pleach_communicator_rank(const pleach_communicator* communicator);
int32_t pleach_communicator_rank_count(const pleach_communicator* communicator);

// --- Collectives. All ranks of the communicator ask for the same ones in the same order, with the
// same count, type, reduction and root. `operation` NULL: they return when it is done. Otherwise
// they return at once, and the buffers are the operation's until it is done.
//
// In place: input == output, or where one is a rank's part of the other, the part's place in it. A
// buffer that a rank does not need, as it is not the root, may be NULL.
// What is refused because no rank could mean it (a NULL handle, an unknown number, a root out of
// range, a negative count) has not happened. Anything else that fails ends the job, on all ranks,
// with one message that names rank, operation and cause: nobody waits for what will not come.
//
// A rank that only sends in a small collective (the root of a broadcast or scatter, the others of a
// reduce or gather) gets PLEACH_OK when its buffer is free. If its peers called something else, its
// next call that waits for them returns the error, or pleach_communicator_close().

// input, output: count elements.
pleach_status pleach_all_reduce(pleach_communicator* communicator, const void* input, void* output,
                                int64_t count, pleach_type type, pleach_reduction reduction,
                                pleach_operation** operation);
// output: count elements, the rank's part; input: as many for each rank.
pleach_status pleach_reduce_scatter(pleach_communicator* communicator, const void* input,
                                    void* output, int64_t count, pleach_type type,
                                    pleach_reduction reduction, pleach_operation** operation);
// input: count elements, the rank's part; output: as many of each rank.
pleach_status pleach_all_gather(pleach_communicator* communicator, const void* input, void* output,
                                int64_t count, pleach_type type, pleach_operation** operation);
// input: count elements for each rank; output: as many of each.
pleach_status pleach_all_to_all(pleach_communicator* communicator, const void* input, void* output,
                                int64_t count, pleach_type type, pleach_operation** operation);
// input: count elements, of the root alone; output: count elements.
pleach_status pleach_broadcast(pleach_communicator* communicator, const void* input, void* output,
                               int64_t count, pleach_type type, int32_t root,
                               pleach_operation** operation);
// input: count elements; output: count elements, of the root alone.
pleach_status pleach_reduce(pleach_communicator* communicator, const void* input, void* output,
                            int64_t count, pleach_type type, pleach_reduction reduction,
                            int32_t root, pleach_operation** operation);
// input: count elements, the rank's part; output: as many of each rank, of the root alone.
pleach_status pleach_gather(pleach_communicator* communicator, const void* input, void* output,
                            int64_t count, pleach_type type, int32_t root,
                            pleach_operation** operation);
// input: count elements for each rank, of the root alone; output: count elements, the rank's part.
pleach_status pleach_scatter(pleach_communicator* communicator, const void* input, void* output,
                             int64_t count, pleach_type type, int32_t root,
                             pleach_operation** operation);
// The same with parts of different sizes, which lie one behind the other: a count for each rank of
// the communicator, the same on all ranks. They are read before the call returns.
pleach_status pleach_all_gather_v(pleach_communicator* communicator, const void* input,
                                  void* output, const int64_t* counts, pleach_type type,
                                  pleach_operation** operation);
pleach_status pleach_reduce_scatter_v(pleach_communicator* communicator, const void* input,
                                      void* output, const int64_t* counts, pleach_type type,
                                      pleach_reduction reduction, pleach_operation** operation);
pleach_status pleach_gather_v(pleach_communicator* communicator, const void* input, void* output,
                              const int64_t* counts, pleach_type type, int32_t root,
                              pleach_operation** operation);
pleach_status pleach_scatter_v(pleach_communicator* communicator, const void* input, void* output,
                               const int64_t* counts, pleach_type type, int32_t root,
                               pleach_operation** operation);
// What this rank sends to each, and receives from each. Of a pair they must agree, and nobody else
// knows them.
pleach_status pleach_all_to_all_v(pleach_communicator* communicator, const void* input,
                                  const int64_t* send_counts, void* output,
                                  const int64_t* receive_counts, pleach_type type,
                                  pleach_operation** operation);
// Any of them, with all that may be asked.
typedef struct pleach_request {
  size_t size;
  pleach_collective collective;
  pleach_type type;
  pleach_reduction reduction;  // where it reduces; else it is passed over, as the root is
  pleach_wire wire;            // the same on all ranks
  int32_t root;                // where it has one
  // Of an all_gather, reduce_scatter, gather or scatter that has counts: the whole is so many
  // pieces, one behind the other, in each of which every rank has a part; a rank's own parts of all
  // pieces lie one behind the other. So it is as many collectives in one. `counts` then has
  // piece_count times as many entries, of piece p and rank r at p · ranks + r. 0: 1
  int32_t piece_count;
  const void* input;
  void* output;
  int64_t count;
  const int64_t*
      counts;  // in place of `count`, which is 0, as the _v functions have them. NULL: none
  const int64_t* receive_counts;  // of an all_to_all that has counts
  // How long this rank waits for others to begin it, and then while nothing of it moves. 0: the
  // endpoint's.
  int64_t deadline_ms;
} pleach_request;
pleach_status pleach_perform(pleach_communicator* communicator, const pleach_request* request,
                             pleach_operation** operation);

// Nobody is done before all have come.
pleach_status pleach_barrier(pleach_communicator* communicator, pleach_operation** operation);
typedef struct pleach_barrier_options {
  size_t size;
  int64_t deadline_ms;  // as a request's
} pleach_barrier_options;

// The same with options. NULL: all defaults.
pleach_status pleach_barrier_with(pleach_communicator* communicator,
                                  const pleach_barrier_options* options,
                                  pleach_operation** operation);

// --- Messages between two ranks of a communicator. Those of one source, target and tag come in the
// order in which they were sent, and hold up no others. A small one is sent before it is received,
// if there is room; any may wait for its receive, so ranks that send to each other start before
// they wait. A receive of more bytes than come is done with those; of fewer it ends the job.
// `operation`: as a collective's.

#define PLEACH_ANY_RANK (-1)  // as a source

typedef struct pleach_received {
  int64_t bytes;
  int32_t source;
  int32_t reserved;  // 0
} pleach_received;

// tag: >= 0.
pleach_status pleach_send(pleach_communicator* communicator, const void* message, int64_t bytes,
                          int32_t target, int32_t tag, pleach_operation** operation);
// *received: what has come, where it blocks; may be NULL.
pleach_status pleach_receive(pleach_communicator* communicator, void* buffer, int64_t bytes,
                             int32_t source, int32_t tag, pleach_received* received,
                             pleach_operation** operation);
typedef struct pleach_message_options {
  size_t size;
  // Until both sides have called; then the endpoint's ends one in which nothing happens. 0: the
  // endpoint's; PLEACH_FOREVER: as long as it takes.
  int64_t deadline_ms;
} pleach_message_options;

// The same with options. NULL: all defaults.
pleach_status pleach_send_with(pleach_communicator* communicator, const void* message,
                               int64_t bytes, int32_t target, int32_t tag,
                               const pleach_message_options* options, pleach_operation** operation);
pleach_status pleach_receive_with(pleach_communicator* communicator, void* buffer, int64_t bytes,
                                  int32_t source, int32_t tag,
                                  const pleach_message_options* options, pleach_received* received,
                                  pleach_operation** operation);
// What has come, once a receive that was started is done.
pleach_status pleach_operation_received(pleach_operation* operation, pleach_received* received);

// --- Operations

// *is_done: 1 when it is done, well or not; else 0. Moves on what can move without waiting.
pleach_status pleach_operation_test(pleach_operation* operation, int32_t* is_done);
// Waits until it is done, and returns how it ended; at most so long, then PLEACH_TIMEOUT, and it
// goes on.
pleach_status pleach_operation_wait(pleach_operation* operation, int64_t timeout_ms);
// Calls back once, when it is done, in the thread that finds that out; at once where it is done. A
// later callback takes the place of one that has not been called. It may start operations, and
// destroy handles, but not wait. `error` is "" where status is PLEACH_OK, and valid in the
// callback.
typedef void (*pleach_callback)(void* context, pleach_status status, const char* error);
pleach_status pleach_operation_on_done(pleach_operation* operation, pleach_callback callback,
                                       void* context);
// When it was started, and when it was found to be done (0 before that), in nanoseconds of the
// clock that deadlines go by: CLOCK_MONOTONIC, less what the process was stopped. Either pointer
// may be NULL.
pleach_status pleach_operation_times(pleach_operation* operation, int64_t* started_ns,
                                     int64_t* finished_ns);
// Lets go of the handle; the operation goes on, and calls back.
void pleach_operation_destroy(pleach_operation* operation);

// --- Memory that other ranks of the host may read where it stands: fewer copies within a host.

// Zeros, at a page. NULL, and an error, where there is none.
void* pleach_alloc(size_t bytes);
// Of pleach_alloc() only. Not before the operations that use it are done. NULL: nothing happens.
pleach_status pleach_free(void* memory);

#ifdef __cplusplus
}
#endif
