// Package queue is all that the worker knows of asynq: nothing else of the worker's
// imports it. push does, for the side of producers.
//
// A Server pulls jobs by several of asynq's servers and hands them to a Handler,
// which ends a job by returning nil, and brings it back by returning a Return.
// asynq is used by its public interface but for one seam: its servers are given a
// Redis client of our own, which takes the place of some of its Lua scripts (see
// scripts.go). The invariants:
//
//   - A script is recognised by the hash of its text. Check refuses, before anything
//     starts, an asynq that runs another one, and TestAsynqIsTheOneWeKnow pins texts,
//     keys and arguments: its failure says what to compare.
//   - A job is in exactly one of asynq's lists and sets, whatever is interrupted.
//   - What takes a job out of hand is insisted on; what brings it back happens once.
//   - What asynq could not read, or would lose, is set aside as a dead letter.
package queue

// The hashes of the scripts of push.AsynqVersion that are taken the place of, or
// relied upon to do what their text says.
const (
	dequeueHash = "a8153319360adc71cdc370107f8ab9786f204765" // pullScript, in pull.go
	doneHash    = "1241eaa1c73409baaf1fea0c08d203a4911bda15" // push.Dones, where it settles too
	retryHash   = "65fa409c88198a681c53e0892d8276eca0145694" // itself, insisted on
	requeueHash = "f34cbfd11d1fc8019af55b50c447fc68eb8b29e5" // cutOffScript, in replaced.go
	forwardHash = "522b1a6ae66fe79ea2f24a9af58798ab71879035" // forwardScript, there too
	leasesHash  = "16988a462595f6ee317be300951533b004f27f5c" // overScript, there too
)

// scripts are the names of the scripts that asynq's servers may run, by their
// hashes. No job of ours is unique, is kept when it is done, or is archived: the
// scripts for these are not among them, and the lease brings such a job back.
var scripts = map[string]string{
	dequeueHash: "dequeueCmd", doneHash: "doneCmd", retryHash: "retryCmd", requeueHash: "requeueCmd",
	forwardHash: "forwardCmd", leasesHash: "listLeaseExpiredCmd",
	// for no jobs of ours
	"7c08714194a1ed81153180b36590c51f1ccd7d42": "reclaimStateAggregationSetsCmd",
	"49c4326d80c1db9c476da2aa7f4438d03688f82b": "deleteExpiredCompletedTasksCmd",
	"3c8548ad44d0dfcfde50f07ea9271d77f656042c": "writeServerStateCmd",
	"79cf8dbc80deca37314fdfdeb9fe33a12c9baad7": "clearServerStateCmd",
}
