"""How threads hand each other tasks: three native functions, so that nobody waits for Python's lock.

Enters: a disk cache.  Leaves: a `Dispatch`.  Waking a sleeping thread takes 30 to 60 us, and so does passing Python's
lock to it; a worker that finished a job therefore looks out for the next one for a while before it sleeps, and starts
on it in less than one.

Every worker has a slot, 64 bytes apart; its first word is 0 (asleep), 1 (awake), the address of a job (posted), or that
plus one (at work), and the second how many loops are running that may post jobs: as long as there is one, the worker
does not go to sleep.  A worker that sleeps when a job is posted has to be woken; it may find the job withdrawn.
A job is `JOB_WORDS` words: function, words, tasks, step, threads, scratch, bytes of scratch for each thread; then how
many tasks have been taken of each thread's share; and then the numbers of the workers to wake.  The shares follow each
other, equal ones of at least a step.  A thread takes one step after the other of its own share, so that it walks memory
in order, and then what is left of the others'.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from typing import Any

from numstax.program import Program
from numstax.records import record
from numstax.runtime.cache import DiskCache
from numstax.runtime.load import assemble, functions

JOB_WORDS = 7
SLOT_WORDS = 8
TEAM_WORDS = 5
CHUNKS_PER_WORKER = 16
"""Enough to even out chunks of unequal cost or a worker that wakes late."""
RESTLESS = 30000
"""After so many looks for a job, a worker that may not sleep looks every 50 us only."""

_TEXT = """
declare i32 @sched_yield()
declare i32 @usleep(i32)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

define internal void @take_part(ptr %job, i64 %thread) {
entry:
  %function = load ptr, ptr %job
  %words.at = getelementptr i64, ptr %job, i64 1
  %words = load ptr, ptr %words.at
  %tasks.at = getelementptr i64, ptr %job, i64 2
  %tasks = load i64, ptr %tasks.at
  %step.at = getelementptr i64, ptr %job, i64 3
  %step = load i64, ptr %step.at
  %threads.at = getelementptr i64, ptr %job, i64 4
  %threads = load i64, ptr %threads.at
  %scratch.at = getelementptr i64, ptr %job, i64 5
  %scratches = load ptr, ptr %scratch.at
  %stride.at = getelementptr i64, ptr %job, i64 6
  %stride = load i64, ptr %stride.at
  %offset = mul i64 %thread, %stride
  %scratch = getelementptr i8, ptr %scratches, i64 %offset
  %padded = add i64 %tasks, %threads
  %inside = sub i64 %padded, 1
  %even = sdiv i64 %inside, %threads
  %share = call i64 @llvm.smax.i64(i64 %even, i64 %step)
  br label %shares
shares:
  %k = phi i64 [0, %entry], [%k.next, %over]
  %sum = add i64 %thread, %k
  %owner = srem i64 %sum, %threads
  %next = getelementptr [NEXT x i64], ptr %job, i64 1, i64 %owner
  %first = mul i64 %owner, %share
  %last = add i64 %first, %share
  %stop = call i64 @llvm.smin.i64(i64 %last, i64 %tasks)
  br label %loop
loop:
  %taken = atomicrmw add ptr %next, i64 %step monotonic
  %lo = add i64 %first, %taken
  %left = icmp slt i64 %lo, %stop
  br i1 %left, label %run, label %over
run:
  %end = add i64 %lo, %step
  %hi = call i64 @llvm.smin.i64(i64 %end, i64 %stop)
  call void %function(ptr %words, i64 %lo, i64 %hi, ptr %scratch)
  br label %loop
over:
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %threads
  br i1 %more, label %shares, label %done
done:
  ret void
}

define internal void @fill(ptr %job, ptr %function, ptr %words, i64 %tasks, i64 %step, i64 %threads, ptr %scratches,
                           i64 %stride) {
entry:
  store ptr %function, ptr %job
  %words.at = getelementptr i64, ptr %job, i64 1
  store ptr %words, ptr %words.at
  %tasks.at = getelementptr i64, ptr %job, i64 2
  store i64 %tasks, ptr %tasks.at
  %step.at = getelementptr i64, ptr %job, i64 3
  store i64 %step, ptr %step.at
  %threads.at = getelementptr i64, ptr %job, i64 4
  store i64 %threads, ptr %threads.at
  %scratch.at = getelementptr i64, ptr %job, i64 5
  store ptr %scratches, ptr %scratch.at
  %stride.at = getelementptr i64, ptr %job, i64 6
  store i64 %stride, ptr %stride.at
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k.next, %loop]
  %next = getelementptr [NEXT x i64], ptr %job, i64 1, i64 %k
  store i64 0, ptr %next
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %threads
  br i1 %more, label %loop, label %done
done:
  ret void
}

define i64 @post(ptr %slots, i64 %count, ptr %job, ptr %function, ptr %words, i64 %tasks, i64 %step,
                 ptr %scratches, i64 %stride) {
entry:
  %threads = add i64 %count, 1
  call void @fill(ptr %job, ptr %function, ptr %words, i64 %tasks, i64 %step, i64 %threads, ptr %scratches, i64 %stride)
  %asleep = getelementptr [NEXT x i64], ptr %job, i64 1, i64 %threads
  %posted = ptrtoint ptr %job to i64
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k.next, %counted]
  %n = phi i64 [0, %entry], [%n.next, %counted]
  %left = icmp slt i64 %k, %count
  br i1 %left, label %try, label %done
try:
  %slot = getelementptr [8 x i64], ptr %slots, i64 %k
  %first = cmpxchg ptr %slot, i64 1, i64 %posted acq_rel monotonic
  %awake = extractvalue {i64, i1} %first, 1
  br i1 %awake, label %counted, label %sleeping
sleeping:
  %second = cmpxchg ptr %slot, i64 0, i64 %posted acq_rel monotonic
  %slept = extractvalue {i64, i1} %second, 1
  br i1 %slept, label %note, label %counted
note:
  %place = getelementptr i64, ptr %asleep, i64 %n
  store i64 %k, ptr %place
  %n.more = add i64 %n, 1
  br label %counted
counted:
  %n.next = phi i64 [%n, %try], [%n, %sleeping], [%n.more, %note]
  %k.next = add i64 %k, 1
  br label %loop
done:
  ret i64 %n
}

define void @work(ptr %slots, i64 %count, ptr %job) {
entry:
  call void @take_part(ptr %job, i64 0)
  %posted = ptrtoint ptr %job to i64
  %busy = add i64 %posted, 1
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k.next, %next]
  %left = icmp slt i64 %k, %count
  br i1 %left, label %withdraw, label %done
withdraw:
  %slot = getelementptr [8 x i64], ptr %slots, i64 %k
  %tried = cmpxchg ptr %slot, i64 %posted, i64 1 acq_rel acquire
  br label %look
look:
  %pauses = phi i64 [1, %withdraw], [%pauses.next, %wait], [%pauses.next, %yield]
  %now = load atomic i64, ptr %slot acquire, align 8
  %same = icmp eq i64 %now, %busy
  br i1 %same, label %wait, label %next
wait:
  PAUSE
  %pauses.next = add i64 %pauses, 1
  %some = and i64 %pauses, 1023
  %long = icmp eq i64 %some, 0
  br i1 %long, label %yield, label %look
yield:
  %yielded = call i32 @sched_yield()
  br label %look
next:
  %k.next = add i64 %k, 1
  br label %loop
done:
  ret void
}

define void @share(ptr %team, ptr %function, ptr %words, i64 %tasks, i64 %grain) {
entry:
  %slots.at = getelementptr i64, ptr %team, i64 1
  %slots = load ptr, ptr %slots.at
  %helpers.at = getelementptr i64, ptr %team, i64 2
  %helpers = load i64, ptr %helpers.at
  %scratch.at = getelementptr i64, ptr %team, i64 3
  %scratch = load ptr, ptr %scratch.at
  %stride.at = getelementptr i64, ptr %team, i64 4
  %stride = load i64, ptr %stride.at
  %threads = add i64 %helpers, 1
  %chunks = mul i64 %threads, CHUNKS
  %even = sdiv i64 %tasks, %chunks
  %more = add i64 %even, 1
  %step = call i64 @llvm.smax.i64(i64 %more, i64 %grain)
  %several = icmp slt i64 %step, %tasks
  %count = select i1 %several, i64 %helpers, i64 0
  %takers = add i64 %count, 1
  %length = add i64 %takers, NEXT
  %job = alloca i64, i64 %length
  call void @fill(ptr %job, ptr %function, ptr %words, i64 %tasks, i64 %step, i64 %takers, ptr %scratch, i64 %stride)
  %posted = ptrtoint ptr %job to i64
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k.next, %try]
  %left = icmp slt i64 %k, %count
  br i1 %left, label %try, label %done
try:
  %slot = getelementptr [8 x i64], ptr %slots, i64 %k
  %tried = cmpxchg ptr %slot, i64 1, i64 %posted acq_rel monotonic
  %k.next = add i64 %k, 1
  br label %loop
done:
  call void @work(ptr %slots, i64 %count, ptr %job)
  ret void
}

define void @serve(ptr %slots, i64 %index, i64 %patience) {
entry:
  %slot = getelementptr [8 x i64], ptr %slots, i64 %index
  %thread = add i64 %index, 1
  %held.at = getelementptr i64, ptr %slot, i64 1
  %woke = cmpxchg ptr %slot, i64 0, i64 1 acq_rel monotonic
  br label %look
look:
  %k = phi i64 [0, %entry], [0, %taken], [0, %stay], [%k.next, %wait], [%k.next, %yield], [%k.next, %sleep]
  %now = load atomic i64, ptr %slot acquire, align 8
  %idle = icmp eq i64 %now, 1
  br i1 %idle, label %count, label %take
take:
  %busy = add i64 %now, 1
  %tried = cmpxchg ptr %slot, i64 %now, i64 %busy acq_rel monotonic
  %took = extractvalue {i64, i1} %tried, 1
  br i1 %took, label %run, label %taken
run:
  %job = inttoptr i64 %now to ptr
  call void @take_part(ptr %job, i64 %thread)
  store atomic i64 1, ptr %slot release, align 8
  br label %taken
taken:
  br label %look
count:
  %k.next = add i64 %k, 1
  %patient = icmp slt i64 %k.next, %patience
  br i1 %patient, label %wait, label %tired
wait:
  PAUSE
  br label %look
tired:
  %held = load atomic i64, ptr %held.at monotonic, align 8
  %wanted = icmp sgt i64 %held, 0
  br i1 %wanted, label %rest, label %leave
rest:
  %soon = icmp slt i64 %k.next, RESTLESS
  br i1 %soon, label %yield, label %sleep
yield:
  %yielded = call i32 @sched_yield()
  br label %look
sleep:
  %slept = call i32 @usleep(i32 50)
  br label %look
leave:
  %left = cmpxchg ptr %slot, i64 1, i64 0 acq_rel monotonic
  %gone = extractvalue {i64, i1} %left, 1
  br i1 %gone, label %done, label %stay
stay:
  br label %look
done:
  ret void
}
"""
_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
"""What tells a processor that a loop waits."""


def _program() -> Program:
    declaration, pause = _PAUSES.get(os.uname().machine, ("", "fence seq_cst"))
    numbers = {"PAUSE": pause, "CHUNKS": str(CHUNKS_PER_WORKER), "NEXT": str(JOB_WORDS), "RESTLESS": str(RESTLESS)}
    text = re.sub("|".join(numbers), lambda m: numbers[m[0]], _TEXT)
    return Program("dispatch", "llvm", declaration + text, "work", ())


@record
class Dispatch:
    """The functions, which release Python's lock.

    post : (slots, count, job, function, words, tasks, step, scratch, bytes of scratch for each thread) -> how many of
        the `count` first workers are to be woken; what they are to do is in their slots.
    work : (slots, count, job): take part in the job until no task is left and no worker is at it.
    share : (team, function, words, tasks, grain), for native code: a job for the workers that are awake.  A team is
        five words: the address of `share`, slots, number of workers, scratch, bytes of scratch for each thread.
    serve : (slots, worker, patience): do jobs until none came during so many pauses.
    """

    post: Callable[..., int]
    work: Callable[..., int]
    share: Callable[..., int]
    serve: Callable[..., int]


def load_dispatch(cache: DiskCache) -> Dispatch:
    """Raises CompileError."""
    program = _program()
    code = cache.get(program, cache.key(program), assemble)
    at: Any = ctypes.c_void_p
    n = ctypes.c_int64
    types = {"post": (n, at, n, at, at, at, n, n, at, n), "work": (None, at, n, at)}
    types |= {"share": (None, at, at, at, n, n), "serve": (None, at, n, n)}
    return Dispatch(**functions(code, types))
