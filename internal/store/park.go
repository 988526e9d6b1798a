package store

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A job is parked under the name of the route, user, pause or quota that has no room for it, in the
// order in which the jobs became due. A worker claims the job once there is room. A name is
//
//	APP/SERVICE               a route, from push.OnlyRoute
//	"app":"A","user":"U"…     a user in a category, from push.UserMark
//	"pause":SELECTOR          an operator's pause
//	"quota":KEY               a quota or a throughput
//
// or several of these names, separated by tabs: the joined name has room if one of its names has.

const (
	parkedByPause = `"pause":`
	parkedByQuota = `"quota":`
	parkedByUser  = `"app":`
)

// PauseName returns the name of an operator's pause with that selector.
func PauseName(selector string) string { return parkedByPause + selector }

// QuotaName returns the name of the quota with that key.
func QuotaName(key string) string {
	text, _ := json.Marshal(key) // a string always encodes
	return parkedByQuota + string(text)
}

// PauseOf returns the selector of a PauseName.
func PauseOf(name string) (selector string, is bool) { return strings.CutPrefix(name, parkedByPause) }

// QuotaOf returns the key of a QuotaName.
func QuotaOf(name string) (key string, is bool) {
	text, is := strings.CutPrefix(name, parkedByQuota)
	return key, is && json.Unmarshal([]byte(text), &key) == nil
}

// ParkName joins names into one.
func ParkName(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "\t")
}

// ParkNames splits a name that ParkName has joined.
func ParkNames(name string) []string { return strings.Split(name, "\t") }

// MinParkTime is the least time until a worker pulls a parked job even without room.
const MinParkTime = time.Hour

// DrawParkTime draws the time until a parked job is pulled even without room: MinParkTime and up to
// a quarter more, so that jobs parked together do not return together.
func DrawParkTime() time.Duration { return MinParkTime + rand.N(MinParkTime/4) }

// parkAs is Lua. parkedAs returns the value of a task's field parked; parkAs records a parked job,
// and returns false if the key has the wrong type.
const parkAs = `
local function parkedAs(name, place) return name .. '\n' .. place end
local function parkAs(prefix, names, name, place)
  local put = redis.pcall('ZADD', prefix .. name, 0, place)
  if type(put) == 'table' then return false end
  redis.call('SADD', names, name)
  return true
end
`

// parkedReturn returns the last Return of a parked job from its fields parked and last. It is zero
// for a job that was parked by its route before it was processed.
func parkedReturn(field, last string) Return {
	if strings.HasPrefix(field, parkedByUser) {
		return Return{Why: Crowded}
	}
	switch r := readReturn(last); r.Why {
	case ProviderBusy, ProviderPaused, OverQuota, Unmetered, TooLate:
		return r
	}
	return Return{}
}
