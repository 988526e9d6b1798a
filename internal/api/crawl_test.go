package api

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate/operatetest"
	"github.com/pushpace/pushpace/internal/redistest"
)

// named maps each parameter to values that refer to another app. {x} becomes "secret", an app
// that exists, or "nobody", an app that does not.
var named = map[string][]string{
	"id": {"{x}-app-waits", "{x}-app-letter", "{x}-malformed"}, "user": {"{x}-app-user", "{x}-user"}, "app": {"{x}-app"},
	"category": {"{x}-app", "{x}-of-all"}, "quota": {"apns/{x}-app", "both"}, "platform": {"fcm"}, "all": {"true"}, "mute": {"true"}, "remove": {"true"},
}

// bodies has the bodies that refer to another app, by path.
var bodies = map[string][]string{
	"/v1/notifications":       {`{"app":"{x}-app","user":"u","targets":[{"platform":"apns","token":"00fc"}],"title":"t"}`},
	"/v1/notifications:batch": {`[{"app":"{x}-app","user":"u","targets":[{"platform":"apns","token":"00fc"}],"title":"t"}]`},
	"/v1/cancellations":       {ids}, "/v1/requeues": {ids}, "/v1/purges": {ids, `{"ids":[{"id":"{x}-app-letter","app":"{x}-app"}]}`},
	"/v1/overrides/import": {`{"overrides":[{"app":"shop","rates":["5/1m"]},{"app":"{x}-app","rates":["5/1m"]}]}`, `{"overrides":[{"user":"{x}-user","rates":["5/1m"]}]}`, `{"overrides":[{"quota":"both","rates":["5/1m"]}]}`},
	"/v1/overrides":        {`{"rates":["5/1m"]}`, `{}`},
	"/v1/pauses":           {`{}`}, "": {`{"rates":["5/1m"]}`},
}

const ids = `{"ids":["{x}-app-waits","{x}-app-letter","{x}-malformed"]}`

// pathsOf returns a route's paths, with each parameter replaced by each value in named: names
// that belong to another app.
func pathsOf(r route) []string {
	paths := []string{r.path}
	for name, values := range named {
		var all []string
		for _, path := range paths {
			if !strings.Contains(path, "{"+name+"}") {
				all = append(all, path)
				continue
			}
			for _, value := range values {
				all = append(all, strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value)))
			}
		}
		paths = all
	}
	return paths
}

// queriesOf returns these queries: an empty one, one for each value in named, one for each pair
// of values, and one with all parameters.
func queriesOf(r route) []url.Values {
	all, whole := []url.Values{{}}, url.Values{}
	for i, name := range r.query {
		for _, value := range named[name] {
			all = append(all, url.Values{name: {value}})
			whole[name] = []string{value}
			for _, other := range r.query[:i] {
				for _, its := range named[other] {
					all = append(all, url.Values{name: {value}, other: {its}})
				}
			}
		}
	}
	return append(all, whole)
}

func bodiesOf(r route) []string {
	if !r.takes {
		return []string{""}
	}
	if some := bodies[r.path]; some != nil {
		return some
	}
	return bodies[""]
}

// A token for one app sees and changes nothing of another app on any route. Neither answers
// nor the number of Redis commands shows whether the other app exists.
func TestAnswersHideOtherApps(t *testing.T) {
	t.Parallel()
	client, asked := redistest.Own(t), new(redistest.Trips)
	client.AddHook(asked)
	r := newRigOn(t, client, func(o *rigOptions) {
		operatetest.TwoApps(&o.Options)
		o.HTTP.Tokens = append(o.HTTP.Tokens, testToken("own", config.Operator, "own-token", operatetest.Own))
	})
	operatetest.FillOwn(t, r.options.Options)
	operatetest.FillOther(t, r.options.Options)
	before := operatetest.Kept(t, r.client)
	try := func(method, address, body string) {
		var answers [2]string
		var costs [2]int
		names := strings.NewReplacer("%7Bx%7D", "{x}").Replace(address) + " " + body
		for range 3 { // the API's own background calls may count among a request's commands
			for i, name := range []string{"nobody", "secret"} {
				fill := strings.NewReplacer("{x}", name, "%7Bx%7D", name)
				asked.Take()
				recorder := r.serve(request("own-token", method, fill.Replace(address), fill.Replace(body)))
				costs[i] = len(asked.Take())
				answers[i] = strings.ReplaceAll(fmt.Sprint(recorder.Code, " ", recorder.Body), name, "{x}")
				if tells := !strings.Contains(names, "{x}") && strings.Contains(answers[i], "{x}"); tells || recorder.Code >= http.StatusInternalServerError {
					t.Errorf("%s %s: %s", method, names, answers[i])
				}
			}
			if costs[0] == costs[1] {
				break
			}
		}
		if strings.Contains(names, "{x}") && answers[0] != answers[1] {
			t.Errorf("%s %s tells what there is: %s\nfrom what there is not: %s", method, names, answers[1], answers[0])
		}
		if strings.Contains(address, "%7Bx%7D") && answers[0][0] == '4' && costs[0] != costs[1] {
			t.Errorf("%s %s costs %d where there is nothing, and %d else", method, names, costs[0], costs[1])
		}
	}
	for _, route := range routes {
		if route.action == nil {
			continue
		}
		r.do(http.StatusUnauthorized, "", route.method, pathsOf(route)[0], "")
		for _, path := range pathsOf(route) {
			for _, query := range queriesOf(route) {
				if strings.HasSuffix(path, "/timeline") && !query.Has("app") {
					continue // the token's own app, in which overrides of all apps are in force
				}
				for _, body := range bodiesOf(route) {
					try(route.method, path+"?"+query.Encode(), body)
				}
			}
		}
	}
	if after := operatetest.Kept(t, r.client); !maps.Equal(before, after) {
		for key := range before {
			if after[key] == before[key] {
				delete(after, key)
			}
		}
		t.Errorf("%d keys, of which these have changed: %q", len(before), after)
	}
}
