package httplimit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/httplimit"
)

// Each client gets two requests an hour. A limiter on Redis would share them among servers; this
// one is in memory.
func Example() {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	scopes := []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 2, Period: time.Hour}}}}}
	byClient := func(r *http.Request) throttle.Request {
		return throttle.Request{User: r.Header.Get("X-Client"), Scopes: scopes}
	}
	limiter, err := throttle.NewMemory(throttle.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close()
	handler := httplimit.Middleware(limiter, byClient, httplimit.Options{})(hello)

	for range 3 {
		request, reply := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		request.Header.Set("X-Client", "c1")
		handler.ServeHTTP(reply, request)
		fmt.Println(reply.Code, reply.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "all:2/1h";q=2;w=3600
	// 200 "all:2/1h";q=2;w=3600
	// 429 "all:2/1h";q=2;w=3600
}
