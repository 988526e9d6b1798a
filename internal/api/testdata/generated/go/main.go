// A producer and an operator with the generated client. Arguments: URL, and both tokens.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"

	"example.com/producer/api"
)

func main() {
	url, token := os.Args[1], os.Args[2]
	client, err := api.NewClientWithResponses(url, api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	text := func(s string) *string { return &s }
	ctx := context.Background()
	localised := api.Notification{
		Id: text("localised-go"), App: "demo", User: "cid",
		Targets: []api.Target{{Platform: "apns", Token: text("00fc13ad")}, {Platform: "fcm", Fid: text("cid-pixel")}},
		Apns:    &map[string]any{"aps": map[string]any{"alert": map[string]any{"loc-key": "ARRIVES", "loc-args": []string{"4711"}}}},
		Fcm:     &map[string]any{"android": map[string]any{"notification": map[string]any{"body_loc_key": "ARRIVES", "body_loc_args": []string{"4711"}}}},
	}
	live := api.NotificationPushType("liveactivity")
	activity := api.Notification{
		Id: text("activity-go"), App: "demo", User: "dan", PushType: &live,
		Targets: []api.Target{{Platform: "apns", Token: text("00fc13ad")}},
		Apns:    &map[string]any{"aps": map[string]any{"event": "update", "timestamp": 1795000000, "content-state": map[string]any{"minutes": 12}}},
	}
	one, err := client.EnqueueWithResponse(ctx, nil, localised)
	if err != nil || one.JSON202 == nil || one.JSON202.Id != "localised-go" {
		log.Fatalf("the localised one: %v %s", err, one.Body)
	}
	batch, err := client.EnqueueBatchWithResponse(ctx, []api.Notification{activity, localised})
	if err != nil || batch.JSON202 == nil || fmt.Sprint(batch.JSON202.Results[0].Status, batch.JSON202.Results[1].Status) != "202 200" {
		log.Fatalf("the batch: %v %s", err, batch.Body)
	}
	status, err := client.GetNotificationWithResponse(ctx, "activity-go", nil)
	if err != nil || status.JSON200 == nil || status.JSON200.State != "waiting" {
		log.Fatalf("the status: %v %s", err, status.Body)
	}
	again, err := client.EnqueueWithResponse(ctx, &api.EnqueueParams{IdempotencyKey: text(`"localised-go"`)}, localised)
	if err != nil || again.JSON200 == nil || again.JSON200.Id != "localised-go" {
		log.Fatalf("the same again, by its key: %v %s", err, again.Body)
	}
	refused, err := client.EnqueueWithResponse(ctx, nil, api.Notification{App: "dmeo", User: "dan", Title: text("t"), Targets: activity.Targets})
	if err != nil || refused.ApplicationproblemJSON400 == nil || (*refused.ApplicationproblemJSON400.Errors)[0].Pointer != "/app" {
		log.Fatalf("the mistyped app: %v %s", err, refused.Body)
	}
	var alone, whole api.SomeIDs_Ids_Item
	if err := errors.Join(alone.FromSomeIDsIds0("mistyped"), whole.FromRef(api.Ref{Id: "localised-go", App: text("demo"), User: text("nobody")})); err != nil {
		log.Fatal(err)
	}
	operator := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Args[3])
		return nil
	}
	cancelled, err := client.CancelNotificationsWithResponse(ctx, api.SomeIDs{Ids: []api.SomeIDs_Ids_Item{alone, whole}}, operator)
	if err != nil || cancelled.JSON200 == nil || cancelled.JSON200.Results[0].Outcome != "unknown" || cancelled.JSON200.Results[1].Outcome != "unknown" {
		log.Fatalf("what is nobody's: %v %s", err, cancelled.Body)
	}
}
