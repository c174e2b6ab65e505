/* The broker: BrokerLoop (hello, publish, find, the end of a process), PeerTable, and the supervisor
 * that starts an owner again.
 *
 * Owner and reader each join (hello), under a fixed name. The owner publishes its slab and a row in
 * it; the reader asks for the owner's slab, takes a lease and waits for the row; when the slab turns
 * out lost it asks again. Either may be killed between any two steps, once, also before its request
 * has been answered. It is then started again; an owner publishes a new slab.
 *
 * Checked: nobody waits for ever (no invalid end state); the broker never gives out a slab whose
 * owner has ended; a reference to a stream of an ended owner finds no row of its successor; when all
 * is quiet no ended process has a lease in a live owner's slab, and every reader has its row.
 *
 * Abstracted: the broker's thread handles one event at a time, as in the code; a slab has one stream,
 * whose reference reaches the reader past the broker, one row and one lease slot for each reader,
 * whose protocol is in lease.pml and doorbell.pml.
 */
#include "doorbell.inc"

#define PROCESSES 4  /* 0, 1: incarnations of the owner; 2, 3: of the reader */
#define name_of(process) (process / 2)

mtype = { hello, publish, find, open, lost, none };

/* A process's connection: its request, and whether it has an answer. */
mtype request[PROCESSES] = none;
bool answered[PROCESSES];
byte answer[PROCESSES];  /* 0: refused; the slab's number + 1 for find */

bool killed[PROCESSES];
bool exited[PROCESSES];   /* by itself */

/* The broker's own memory. */
bool joined[PROCESSES];     /* a peer, whose pidfd is watched */
bool published[PROCESSES];
byte holder[2];             /* of a name: process + 1 */

/* Shared memory: the slabs of processes 0 and 1. */
mtype state[2] = open;
bool row[2];
byte told;                  /* reference to the latest owner's stream: process + 1; by message */
byte lease[4];              /* of reader incarnation r in slab s: at 2 * s + r - 2, peer + 1 */
Doorbell bell[2];

bool got_row;

/* A generation holds its owner's peer id. */
#ifdef MUTATE_GENERATIONS_FROM_ONE
#define generation_of(reference) 1
#else
#define generation_of(reference) reference
#endif

#define gone(process) (killed[process] || exited[process])

/* ---------------------------------------------------------------- broker */

inline serve(process) {
  d_step {
    if
    :: request[process] == hello ->
       if
       :: holder[name_of(process)] != 0 -> answer[process] = 0  /* kBusy */
       :: else ->
          holder[name_of(process)] = process + 1;
          joined[process] = true;
          answer[process] = process + 1
       fi
    :: request[process] == publish -> published[process] = true; answer[process] = 1
    :: request[process] == find ->
       if
       :: holder[0] != 0 && published[holder[0] - 1] ->
          answer[process] = holder[0];
          assert(joined[holder[0] - 1])
       :: else -> answer[process] = 0
       fi
    fi;
    request[process] = none;
    answered[process] = true
  }
}

inline mark_owner_lost(slab) {
  state[slab] = lost;
#ifndef MUTATE_LOST_DOES_NOT_RING
  ring_doorbell(bell[slab])
#endif
}

/* PeerTable::end */
inline end_peer(process) {
  if
  :: process < 2 && published[process] -> mark_owner_lost(process)
  :: process >= 2 ->
#ifndef MUTATE_NO_DROP
     lease[process - 2] = 0;
     lease[process] = 0;
#endif
     skip
  :: else
  fi;
  d_step {
    joined[process] = false;
    published[process] = false;
    request[process] = none;  /* its connection is closed, and what waits in it is lost */
    if
    :: holder[name_of(process)] == process + 1 -> holder[name_of(process)] = 0
    :: else
    fi
  }
}

/* A process that was killed before it joined joins all the same if its hello has arrived. */
#ifdef MUTATE_EARLY_DEATH_MISSED
bool missed[PROCESSES];
#define note_death(process) \
  d_step { missed[process] = (request[process] == hello && gone(process)) }
#define has_ended(process) (joined[process] && gone(process) && !missed[process])
#else
#define note_death(process) skip
#define has_ended(process) (joined[process] && gone(process))
#endif

active proctype broker() {
end:
  do
  :: request[0] != none -> note_death(0); serve(0)
  :: request[1] != none -> note_death(1); serve(1)
  :: request[2] != none -> note_death(2); serve(2)
  :: request[3] != none -> note_death(3); serve(3)
  :: has_ended(0) -> end_peer(0)
  :: has_ended(1) -> end_peer(1)
  :: has_ended(2) -> end_peer(2)
  :: has_ended(3) -> end_peer(3)
  od
}

inline call(kind) {
  request[me] = kind;
  d_step { answered[me] -> answered[me] = false; result = answer[me]; answer[me] = 0 }
}

/* Refused while the broker has not noticed the predecessor's end: the supervisor tries again. */
inline join() {
  do
  :: call(hello);
     if
     :: result != 0 -> break
     :: else -> holder[name_of(me)] == 0
     fi
  od;
  result = 0
}

/* ---------------------------------------------------------------- owner and reader */

inline own() {
  join();
  call(publish);
  result = 0;
  told = me + 1;
  row[me] = true;
  ring_doorbell(bell[me])
}

/* It lives until the launch ends. */
proctype owner(byte me) {
  byte result;
  {
    own();
end:
    false
  } unless { killed[me] }
}

inline wait_for_row() {
  register_waiter(bell[slab]);
  do
  :: seen = bell[slab].bell;
     if :: row[slab] -> assert(reference == slab + 1); got_row = true; break :: else fi;
     if :: state[slab] == lost -> break :: else fi;
     doorbell_sleep(bell[slab], me - 2, seen, interruptions)
  od;
  seen = 0;
  leave_doorbell(bell[slab])
}

inline read_from_owner() {
  d_step { told != 0 -> reference = told };
  do
  :: holder[0] != 0 && published[holder[0] - 1];  /* asks again until there is one */
#ifdef MUTATE_KEEPS_FIRST_IMPORT
     if
     :: slab == 2 -> call(find); if :: result == 0 -> goto again :: else -> slab = result - 1 fi
     :: else
     fi;
#else
     call(find);
     if :: result == 0 -> goto again :: else -> slab = result - 1 fi;
#endif
     result = 0;
     if
     :: generation_of(slab + 1) != generation_of(reference) ->  /* stale: asks the owner */
        d_step { told != reference -> reference = told }
     :: generation_of(slab + 1) == generation_of(reference) && state[slab] == open ->
        lease[2 * slab + me - 2] = me + 1;
        if
        :: state[slab] == open -> wait_for_row()
        :: else
        fi;
        lease[2 * slab + me - 2] = 0
     :: else
     fi;
#ifdef MUTATE_KEEPS_FIRST_IMPORT
     if :: got_row || tries == 2 -> break :: else -> tries++ fi;
#else
     if :: got_row -> break :: else -> slab = 2 fi;
#endif
again:
     skip
  od
}

proctype reader(byte me) {
  byte result, seen, reference;
  byte slab = 2;
  bit interruptions;
#ifdef MUTATE_KEEPS_FIRST_IMPORT
  byte tries;
#endif
  {
    join();
    read_from_owner();
    exited[me] = true
  } unless { killed[me] }
}

/* ---------------------------------------------------------------- supervisor, deaths, the end */

#ifndef OWNER_LIVES
active proctype owner_killer() {
  if :: d_step { killed[0] = true }; run owner(1) :: skip fi
}
#endif

#ifndef READER_LIVES
active proctype reader_killer() {
  if :: d_step { killed[2] = true }; run reader(3) :: skip fi
}
#endif

/* When nothing else can move. */
active proctype judge() {
  timeout;
  assert(got_row);
  assert(lease[0] == 0 || killed[0]);
  assert(lease[1] == 0 || killed[0]);
  assert(lease[2] == 0 && lease[3] == 0);
  assert(!killed[0] || !joined[0]);
  assert(state[1] == open && (killed[0] || state[0] == open))
}

init {
  atomic { run owner(0); run reader(2) }
}
