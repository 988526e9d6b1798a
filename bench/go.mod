module github.com/pushpace/pushpace/bench

go 1.26.0

replace github.com/pushpace/pushpace => ../

require (
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/pushpace/pushpace v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
