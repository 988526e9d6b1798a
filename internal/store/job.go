package store

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// A job is a task in asynq's layout: a hash with asynq's message, and an entry in one of its
// queue's lists and sets. pushpace adds the fields
//
//	worker  the claim: TERM/VISIT
//	last    the last Return, in JSON; back is its instant (us); failed counts the failures
//	parked  of a parked job: the NAME and the member of parked:NAME
//
// and, besides asynq's sets,
//
//	due           sorted set: when delayed jobs are due, in us. asynq's scheduled and retry
//	              have whole seconds, rounded up. An entry without a job is ignored.
//	parked        set: each NAME with parked jobs: see park.go
//	parked:NAME   sorted set: the jobs parked by NAME, by when they became due
//	idle          string: the channel to which idle workers subscribe; it exists once a
//	              worker has found the queue empty

// A Job is a job that a worker has claimed.
type Job struct {
	ID, Queue string
	// Claim is TERM/VISIT, the worker's term and its pull; no two pulls share one. A move does
	// nothing if the job is not in the Claim that the move names.
	Claim   string
	Payload []byte
	Headers map[string]string
	// Failures counts the failed attempts that will be repeated, and the crashes of workers with the
	// job.
	Failures int
	// Back is when the job last went back to its queue; zero for never.
	Back time.Time
	Last Return
	// Parked is true if the job was parked until this pull.
	Parked bool
}

// claimOf returns the claim of a term's pull.
func claimOf(term string, visit int64) string { return term + "/" + strconv.FormatInt(visit, 10) }

// ErrNotClaimed means that the job is not, or no longer, in the claim that a move names.
var ErrNotClaimed = errors.New("the job is not in this worker's claim")

// ErrUndone means that a job cannot end, because its notification waits: a failover has undone the
// notification's end.
var ErrUndone = errors.New("the end of the job's notification is not recorded")

// An Unfit job is claimed but cannot be processed: see Shard.SetAside.
type Unfit struct {
	Job
	Reason MalformedReason
	Why    string
}

// readMessage is Lua. read returns a task's message; false if there is none, the length of a
// message that is too long, and -1 for a key of the wrong type. While a Cluster's hash slot
// migrates, a task may already be on another master: then the script fails.
const readMessage = `
local function read(key, longest)
  local length = redis.pcall('HSTRLEN', key, 'msg')
  if type(length) == 'table' then
    if string.find(length.err, 'WRONGTYPE', 1, true) then return -1 end
    length = redis.call('HSTRLEN', key, 'msg')
  end
  if length > longest then return length end
  return redis.call('HGET', key, 'msg')
end
`

// open reads a script's reply about a job: its ID, message (as readMessage returns it), last,
// failed, back, and whether it was parked. It returns why no worker can process the job, or nil.
func (j *Job) open(reply []any) (unfit *Unfit) {
	text := func(i int) string { s, _ := reply[i].(string); return s }
	j.ID, j.Last = text(0), readReturn(text(2))
	j.Failures, _ = strconv.Atoi(text(3))
	j.Back, j.Parked = instantOfMicros(text(4)), text(5) != ""
	e, message, reason, why := openMessage(reply[1])
	j.Payload, j.Headers = []byte(e.Payload), e.Headers
	if reason == "" && e.Foreign() {
		reason, why = MalformedForeign, "the task was not enqueued by a push.Producer: its type or options differ"
	}
	if reason == "" {
		return nil
	}
	j.Payload = []byte(message)
	return &Unfit{*j, reason, why}
}

// openMessage reads a task's message, as readMessage returns it, and returns its text too. The
// reason is why the message cannot be read, or "".
func openMessage(reply any) (e Envelope, text string, reason MalformedReason, why string) {
	if length, unread := reply.(int64); unread && length >= 0 {
		return e, "", MalformedSize, fmt.Sprintf("the message has %d bytes, at most %d are read; it is not kept", length, MaxEnvelopeSize)
	} else if unread {
		return e, "", MalformedEnvelope, "the task's key in Redis is not a hash"
	}
	text, _ = reply.(string)
	e, err := ReadEnvelope(text)
	if err != nil {
		return e, text, MalformedEnvelope, err.Error()
	}
	return e, text, "", ""
}

// perJob is the number of values of each job in a script's reply.
const perJob = 6

// openAll reads a script's reply about the jobs in that claim. unfit are the jobs that cannot be
// processed.
func openAll(queue, claim string, reply []any) (jobs []Job, unfit []Unfit) {
	for i := 0; i+perJob <= len(reply); i += perJob {
		job := Job{Queue: queue, Claim: claim}
		if none := job.open(reply[i : i+perJob]); none != nil {
			unfit = append(unfit, *none)
		} else {
			jobs = append(jobs, job)
		}
	}
	return jobs, unfit
}

// stringsOf returns the strings in a list of Redis's reply.
func stringsOf(list any) (all []string) {
	some, _ := list.([]any)
	for _, one := range some {
		if text, ok := one.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// instantOfMicros reads an instant in µs; zero for none.
func instantOfMicros(text string) time.Time {
	if us, _ := strconv.ParseInt(text, 10, 64); us > 0 {
		return time.UnixMicro(us)
	}
	return time.Time{}
}
