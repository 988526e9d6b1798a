package feeding

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
)

//go:embed asynq_test.go
var source string

// A worker sends a notification that the page's lines enqueue.
func TestPlainAsynqClientFeedsWorker(t *testing.T) {
	t.Parallel()
	s, server := site(t)
	address := server.Addr()
	worker := s.Serve(t)

	client := asynq.NewClient(asynq.RedisClientOpt{Addr: address})
	defer client.Close()
	notification := []byte(`{"id":"order-4715","app":"demo","user":"u1","title":"Shipped","targets":[{"platform":"fcm","token":"t"}]}`)
	task := asynq.NewTask("pushpace:notification", notification)
	_, err := client.Enqueue(task, asynq.Queue("pushpace-default"))

	rig.Must(t, err)
	if lines := "\t" + strings.ReplaceAll(strings.TrimSpace(block(t, "## A plain asynq client")), "\n", "\n\t"); !strings.Contains(source, "\n\n"+lines+"\n\n") {
		t.Errorf("this test does not run the page's lines:\n%s", lines)
	}
	producer := push.NewProducer(s.Client, "", 0)
	worker.Until(t, "a delivery", func() bool {
		status, err := producer.Status(t.Context(), "order-4715")
		return err == nil && status.State == push.Delivered
	})
}
