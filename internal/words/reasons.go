package words

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// Explained are words that mean the same, a space between them. Means and Do are Markdown of
// one line.
type Explained struct{ Words, Means, Do string }

// A ReasonSet is a closed set of words: states, causes, outcomes or reasons. Above and Below
// are Markdown around its table in docs/reasons.md, and Head is the heading of its first column.
type ReasonSet struct {
	Title, Head  string
	Above, Below string
	Rows         []Explained
}

const malformedReasons = "Reasons of malformed jobs"

// Reason returns the meaning and the remedy of a dead letter's reason in that state; "" for an
// unknown reason.
func Reason(s push.State, reason string) (means, do string) {
	for _, set := range ReasonSets {
		if !strings.HasPrefix(set.Title, "Reasons of ") || (set.Title == malformedReasons) != (s == store.Malformed) {
			continue
		}
		for _, row := range set.Rows {
			if slices.Contains(strings.Fields(row.Words), reason) {
				return plain(row.Means), plain(row.Do)
			}
		}
	}
	return "", ""
}

// Reasons returns the reasons of dead letters, sorted.
func Reasons() (all []string) {
	for _, set := range ReasonSets {
		if strings.HasPrefix(set.Title, "Reasons of ") {
			all = append(all, set.Words()...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Words returns the words that the set explains.
func (s ReasonSet) Words() (all []string) {
	for _, row := range s.Rows {
		all = append(all, strings.Fields(row.Words)...)
	}
	return all
}

var link = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// plain is a text of Markdown without its marks.
func plain(text string) string {
	return strings.ReplaceAll(link.ReplaceAllString(text, "$1"), "`", "")
}

// ReasonSets are the words of docs/reasons.md, which a test writes with -update.
var ReasonSets = []ReasonSet{
	{
		Title: "States", Head: "State",
		Above: "A state says where a notification is. Every accepted notification waits until it ends in exactly one of the other states; `audit` compares the sums.",
		Below: "A target that says `ambiguous` may have been sent although no answer says so: its slot is kept.",
		Rows: []Explained{
			{"waiting", "it has not ended: on a queue, claimed by a worker, or deferred", "nothing; `status ID` shows why it waits, and until when"},
			{"delivered", "at least one target's provider took it", "nothing"},
			{"undeliverable", "every target's token is dead", "drop the tokens: the stream `PREFIX:dead-tokens:APP` and the webhook name them"},
			{"rejected", "refused for good", "fix its reason's cause, then `dead requeue ID`"},
			{"exhausted", "its attempts, or the time for them, are used up", "see its reason; once it is fixed, `dead requeue ID`"},
			{"expired", "its end came before it could be sent", "nothing, or give it a longer `ttl`; many of them mean that limits or a provider hold too much back"},
			{"cancelled", "`cancel`, or the API, ended it, alone or with others that its user read elsewhere", "nothing"},
			{"superseded", "a newer one has the same collapse key", "nothing"},
			{"digested", "another's push carries it: `status ID` has the other's ID and state", "nothing; if the other one is a dead letter, requeue it"},
			{"muted", "its user, its category or both are muted", "nothing; `limits get --user USER` lists the mutes, `limits unmute` ends one"},
			{"malformed", "a job on the queue that is no notification, or a task of a [plain asynq client](producers.md#a-plain-asynq-client) that cannot be accepted; it was never accepted, and is not in the audit's sums", "find the program that wrote it; `dead purge ID`"},
		},
	},
	{
		Title: "Causes of waiting", Head: "Cause",
		Above: "`waiting --for CAUSE`, `cancel --all --for CAUSE` and `GET /v1/waiting?for=CAUSE` select by these causes.",
		Rows: []Explained{
			{"worker", "it is due, and no worker has taken it yet", "if it lasts, start workers: `overview` lists live ones"},
			{"in_hand", "a worker has claimed it, and sends it now or shortly", "nothing"},
			{"schedule", "its producer set `not_before`", "nothing"},
			{"limit", "one of its user's limits", "nothing; `timeline USER` shows them, `limits set` changes them"},
			{"quiet_hours", "the user's quiet hours, until they end; then it may wait for a limit", "nothing; a category with its own, or `\"priority\":\"critical\"`, is sent"},
			{"quota", "a limit of all workers together: a provider's quota, a category's throughput, or the limit of one device (`over the device's limit 240/1m`)", "nothing; `status ID` says which and until when. Raise it if the provider allows more. If the quota cannot be read, the worker's log says why"},
			{"attempt", "another attempt after a failed one, while its provider works", "see the target's reason below"},
			{"pause", "an operator's pause", "`pauses` lists them, `resume` ends them"},
			{"provider", "a provider that is in trouble, paused for its answers, or busy. A provider is also busy for a worker without a share of its `concurrency`. If a browser's push service at its own host fails several times in a row, it gets no push for up to five minutes: that spends no attempt, but `retry_time`. A failed notification also waits while its provider is in trouble or paused and no other target can be sent to", "`status ID` and `pauses` say why and until when; fix it, and `resume`. Held notifications are sent by themselves: see [operators.md](operators.md#after-an-outage)"},
			{"limiter", "the limits' Redis, which does not answer, or refuses a command", "see the reason. At `/readyz`, a Redis that does not answer is `limits_redis` (or `redis` if the limits have no own Redis), a refusal is `limits`. Nothing is lost meanwhile"},
			{"timeline", "its user's timeline, which cannot be read or written, for example because a key is of another type; other users' notifications go on", "see the reason, and that user's keys in the limits' Redis"},
			{"redis", "the queue's Redis, which refuses to write: a push could not be recorded", "see `pushpace_redis_trouble`; it is sent as soon as Redis writes again"},
			{"machine", "its worker's machine, which is too busy to send on time", "nothing, unless it lasts: then start workers on others"},
			{"recovery", "a worker crashed, or Redis did not answer, while a worker had it", "nothing: it is retried within seconds if another worker runs"},
		},
	},
	{
		Title: "Outcomes of a target", Head: "Outcome",
		Rows: []Explained{
			{"delivered", "the provider took it", "nothing"},
			{"dead_token", "the token or FID will never work again", "delete it"},
			{"retry", "not now; it is sent again", "nothing, unless it lasts"},
			{"rejected", "the same request can never succeed", "see its reason"},
			{"misconfigured", "the app's key, topic or project is refused. The notification waits alone; if several tokens get this answer, the app's route to the push service is paused", "see its reason; new credentials lift the pause"},
		},
	},
	{
		Title: "Reasons of pushpace", Head: "Reason",
		Rows: []Explained{
			{"ok", "delivered", "nothing"},
			{"dry_run", "delivered under the app's `dry_run`: no device shows it", "remove `dry_run` from the configuration to send"},
			{"dial_failed", "no connection to the provider could be made, or the proxy refused it; nothing was sent", "check DNS, firewall and `HTTPS_PROXY`; the log has the cause"},
			{"timed_out", "no answer within the provider's `timeout`", "check the network; the target may have been sent"},
			{"connection_lost", "the connection broke before the answer came", "nothing, unless it lasts; the target may have been sent"},
			{"cancelled", "the worker stopped waiting, because it stops or cannot renew its share of the provider's `concurrency`", "nothing: it is sent again"},
			{"too_late", "its time had passed before it got a connection; nothing was sent", "nothing, unless it lasts: the worker has too little processor time, or too few connections"},
			{"origin_backoff", "a browser's push service at its own host failed several times in a row, and got no push until `retry_time` was over", "take the host out of `hosts`, or drop its subscriptions"},
			{"tls_refused", "one side does not accept the other's certificate", "check `root_ca_file`, the certificate, and for a proxy that opens TLS"},
			{"unreadable_answer", "the answer is not the provider's", "check for a proxy in between"},
			{"unknown_reason", "the provider gave a reason that its documentation does not list", "see its documentation for news"},
			{"invalid", "the notification cannot be rendered for the platform", "see the error; `send --dry-run` shows the payloads"},
			{"unknown_app", "the configuration has no such app", "correct the app's name, or configure it and restart, then `dead requeue ID`"},
			{"unknown_category", "the configuration has no such category, and `limits.unknown_category` is `refuse`", "correct the category, or add it to `limits.categories`, then `dead requeue ID`"},
			{"line_full", "the user's notifications [hold all slots](guarantees.md#order) (`limits.max_booked`), and this one is new and not critical", "send the user less, or raise the limits; then `dead requeue ID`"},
			{"dead_token_spike", "so many tokens of one push service are dead or refused for good that the app's environment or credentials may be wrong; none is reported dead, and the push service is paused. FCM's tokens and FIDs count separately, and only the dead kind is paused", "check `environment`, `topic` and the credentials, then `resume`. If many registration tokens of FCM are dead, the app may have [moved to FIDs](producers.md#moving-an-app-to-fids)"},
			{"no_provider", "the app has no provider for the target's platform", "configure one, or leave such targets out"},
			{"unrecorded", "workers crashed with it too often, or could not record its outcome", "see the log of the workers; some of its targets may have been sent"},
		},
	},
	{
		Title: "Reasons of APNs", Head: "Reason",
		Above: "In Apple's words, as [\"Handling notification responses from APNs\"](https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns) has them.",
		Rows: []Explained{
			{"Unregistered ExpiredToken", "the app is gone from the device", "drop the token"},
			{"BadDeviceToken", "the token is malformed, or from the other environment", "drop it; if there are many, check `environment`"},
			{"DeviceTokenNotForTopic", "the token belongs to another app", "check `topic` if this is not the only one"},
			{"BadTopic MissingTopic TopicDisallowed", "the credentials are not for this topic", "check `topic`, and which app the key or certificate is for"},
			{"InvalidProviderToken MissingProviderToken", "the key is not accepted", "check `key_file`, `key_id` and `team_id`, and this machine's clock"},
			{"ExpiredProviderToken", "the provider token is stale, and is renewed; if it lasts, this machine's clock is off", "check the clock"},
			{"BadEnvironmentKeyIdInToken", "the key is for the other environment", "check `environment`"},
			{"UnrelatedKeyIdInToken", "the connection was used with another team's key; a new one is made", "nothing"},
			{"BadCertificate BadCertificateEnvironment", "the certificate is not accepted, or for the other environment", "check `certificate_file` and `environment`"},
			{"BadCollapseId BadExpirationDate BadMessageId BadPriority InvalidPushType DuplicateHeaders MissingDeviceToken PayloadEmpty", "APNs does not accept the request", "report it with `send --dry-run`'s output: pushpace checks these itself"},
			{"PayloadTooLarge", "the payload is larger than 4 kB, or 5 for VoIP", "shorten it"},
			{"BadPath MethodNotAllowed", "another server than APNs' API answers", "check `endpoint`"},
			{"Forbidden", "APNs does not allow this", "check the app in Apple's developer account"},
			{"IdleTimeout Shutdown", "APNs closed the connection; a new one is made", "nothing"},
			{"TooManyRequests", "too many notifications to one device in a row", "send the user less"},
			{"TooManyProviderTokenUpdates", "too many processes make tokens of one key", "use the key in fewer processes"},
			{"InternalServerError ServiceUnavailable", "APNs is in trouble", "nothing: it waits; see Apple's system status"},
		},
	},
	{
		Title: "Reasons of FCM", Head: "Reason",
		Above: "In capitals, FCM's own words, as [\"FCM error codes\"](https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode) has them.",
		Rows: []Explained{
			{"UNREGISTERED", "the app is gone from the device; or a FID is not registered for messages; or `fid` holds a registration token", "delete the token or FID; if there are many, see [moving to FIDs](producers.md#moving-an-app-to-fids)"},
			{"invalid_token", "the token or FID is malformed", "delete it; find out where it is from"},
			{"SENDER_ID_MISMATCH", "the token or FID belongs to another project", "check `credentials_file` and `project_id`"},
			{"INVALID_ARGUMENT", "FCM does not accept the message", "see the error, which names the field"},
			{"QUOTA_EXCEEDED RESOURCE_EXHAUSTED", "the project or device has used its quota", "nothing: it waits as long as FCM asks; ask for more quota, or send users less"},
			{"UNAVAILABLE INTERNAL DEADLINE_EXCEEDED", "FCM is in trouble", "nothing: it waits; see Firebase's status"},
			{"UNSPECIFIED_ERROR", "FCM names no cause", "see the error"},
			{"THIRD_PARTY_AUTH_ERROR", "FCM cannot send on to APNs, or to a web push service", "check the APNs key in the Firebase console"},
			{"UNAUTHENTICATED", "the access token is not accepted", "check `credentials_file`"},
			{"PERMISSION_DENIED", "the service account may not send for the project", "give it the role, or check `project_id`"},
			{"NOT_FOUND", "there is no such project, or another server answers", "check `project_id` and `endpoint`"},
			{"credentials_refused", "Google's token endpoint gives no access token for the service account", "the key is revoked or wrong, or this machine's clock is off"},
			{"token_endpoint_unreachable", "there is no access token: Google's token endpoint cannot be reached, does not answer in time, or is out of order", "allow `oauth2.googleapis.com` as well as `fcm.googleapis.com`; the log has the cause"},
		},
	},
	{
		Title: "Reasons of Web Push", Head: "Reason",
		Above: "The push services share no words, so these are ours; the error has the service's host, its status, and its word if it has one.",
		Rows: []Explained{
			{"gone not_found", "the subscription has ended", "drop it"},
			{"invalid_token", "the endpoint is not one of the service's", "drop it; find out where it is from"},
			{"endpoint_doubted", "Google refuses the endpoint, as it does at times with good ones", "nothing: it waits half an hour"},
			{"endpoint_refused", "the endpoint is no https URL at port 443 of a host in `hosts`, or the host's address is not a public one; nothing was sent", "find out where it is from; add its host to `hosts` if it is a push service's; for a known service check this machine's DNS"},
			{"vapid_mismatch", "the subscription was made with another key", "drop it and let the browser subscribe again; if most get it, compare the site's `applicationServerKey` with the app's public key"},
			{"unauthorized", "the service does not accept the sender's token", "check `subject`, `private_key_file`, and this machine's clock"},
			{"bad_request", "the service does not accept the message", "see the error"},
			{"too_large", "the message is too large for this browser", "send less: 2 kB suit all"},
			{"too_many_requests", "the device gets too many messages", "nothing: it waits as long as the service asks; send users less"},
			{"throttled", "Windows gets too many messages of the app", "nothing: it waits as long as the service asks"},
			{"redirected", "the service names another address, which is not followed", "find out where the endpoint is from"},
			{"server_error", "the service is in trouble", "nothing: it waits"},
		},
	},
	{
		Title: malformedReasons, Head: "Reason",
		Rows: []Explained{
			{"not_json", "truncated, or no JSON object", "find the program that writes to the queue"},
			{"unknown_version", "its version is missing, or one that this program does not read", "upgrade the workers before the producers, then `dead requeue ID`"},
			{"too_large", "larger than a notification may be", "find the program that writes to the queue"},
			{"invalid", "its content does not fit, is not valid, or has expired; from a plain asynq client, the ID may also be another notification's", "see its error"},
			{"envelope", "the queue's own message around it cannot be read", "find the other program that writes to this Redis"},
			{"foreign", "on a shard's queue, a task not from a `push.Producer`; on a queue for plain asynq clients, a task of another type, with a group or with a unique lock", "hand over by `push.Producer`, the API, or [a plain task](producers.md#a-plain-asynq-client)"},
		},
	},
	{
		Title: "Troubles of Redis", Head: "Trouble",
		Rows: []Explained{
			{"away", "it cannot be reached, or does not answer", "check that it runs, and the network"},
			{"refused", "it does not accept the credentials", "check `username` and `password_file`"},
			{"crowded", "it accepts no more clients", "raise `maxclients`, or run fewer processes"},
			{"full", "its memory is full of keys: nothing more is accepted", "raise `maxmemory`; find out why so many wait (`overview`)"},
			{"read_only", "it is a replica", "name the master, or the Sentinels"},
			{"no_replicas", "`min-replicas-to-write` needs more replicas than there are", "bring the replicas back"},
			{"not_saved", "it cannot save to its disk (MISCONF)", "look at its disk"},
			{"starting", "it loads its keys", "wait"},
			{"busy", "one script blocks it", "see its slow log"},
			{"broken", "the Cluster does not have all slots, or no node is known", "see `cluster info`"},
		},
	},
}
