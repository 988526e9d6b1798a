package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/throttle/limits"
)

// A producer is told of a category that the configuration does not have, of each
// notification that is taken or known, and only where such are warned of.
func TestWarnings(t *testing.T) {
	t.Parallel()
	in := func(category, id string) string {
		return strings.Replace(notification(id, "ada"), `"orders"`, `"`+category+`"`, 1)
	}
	odd := []string{"category secruity is not configured; did you mean security?"}
	r := newRig(t, func(o *rigOptions) { o.Limits.SetUnknown(limits.WarnUnknown) })
	for _, status := range []int{http.StatusAccepted, http.StatusOK} {
		for category, want := range map[string][]string{"secruity": odd, "security": nil, "": nil} {
			var one accepted
			r.do(status, producerToken, "POST", "/v1/notifications", in(category, "alone-"+category)).into(t, &one)
			if !slices.Equal(one.Warnings, want) {
				t.Errorf("%d %q: %+v", status, category, one)
			}
		}
		var many batch
		bad := strings.Replace(in("secruity", "bad"), `"ada"`, `""`, 1)
		r.do(status, producerToken, "POST", "/v1/notifications:batch", "["+in("security", "b-0")+","+bad+","+in("secruity", "b-2")+"]").into(t, &many)
		for i, want := range [][]string{nil, nil, odd} {
			if !slices.Equal(many.Results[i].Warnings, want) {
				t.Errorf("%d, %d: %+v", status, i, many.Results[i])
			}
		}
	}
	r.options.Limits.SetUnknown(limits.AllowUnknown)
	if answer := r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", in("secruity", "allowed")); strings.Contains(answer.text, "warnings") {
		t.Error(answer.text)
	}
	r.options.Limits.SetUnknown(limits.RefuseUnknown)
	r.do(http.StatusBadRequest, producerToken, "POST", "/v1/notifications", in("secruity", "refused"))
}
