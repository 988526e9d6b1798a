package store

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A job that something has no room for is parked under its name, in the order in which it became
// due, until a worker finds room there. A name is
//
//	APP/SERVICE               a route's, as push.OnlyRoute has it
//	"app":"A","user":"U"…     a user's in a category, as push.UserMark has it
//	"pause":SELECTOR          an operator's pause's
//	"quota":KEY               a quota's or a throughput's
//
// or several of these with tabs between: any that has room lets the job go.

const (
	parkedByPause = `"pause":`
	parkedByQuota = `"quota":`
	parkedByUser  = `"app":`
)

// PauseName is the name by which an operator's pause with that selector parks.
func PauseName(selector string) string { return parkedByPause + selector }

// QuotaName is the name by which the quota of that key parks.
func QuotaName(key string) string {
	text, _ := json.Marshal(key) // which fails for no text
	return parkedByQuota + string(text)
}

// PauseOf returns the selector that a PauseName names.
func PauseOf(name string) (selector string, is bool) { return strings.CutPrefix(name, parkedByPause) }

// QuotaOf returns the key that a QuotaName names.
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

// ParkNames returns the names that a name joins.
func ParkNames(name string) []string { return strings.Split(name, "\t") }

// ParkedFor is how long a job is parked at least before a worker looks at it without room.
const ParkedFor = time.Hour

// DrawParked draws how long a job is parked: up to a quarter more than ParkedFor, so that jobs that
// are parked together do not come back together.
func DrawParked() time.Duration { return ParkedFor + rand.N(ParkedFor/4) }

// parkAs is Lua: what the field parked of a task says, and the step that notes a parked job. parkAs
// reports false where the key is of another type.
const parkAs = `
local function parkedAs(name, place) return name .. '\n' .. place end
local function parkAs(prefix, names, name, place)
  local put = redis.pcall('ZADD', prefix .. name, 0, place)
  if type(put) == 'table' then return false end
  redis.call('SADD', names, name)
  return true
end
`

// parkedReturn is the last Return of a job that is parked, as its fields parked and last say. The
// zero value is that of one that was parked without a visit, by its route.
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
