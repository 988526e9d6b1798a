package words

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// Explained is an explanation of words that mean the same, separated by spaces. Means and Do are
// Markdown of one line.
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

// plain returns a text of Markdown without its marks.
func plain(text string) string {
	return strings.ReplaceAll(link.ReplaceAllString(text, "$1"), "`", "")
}

// ReasonSets are the words of docs/reasons.md. A test writes that page with -update.
var ReasonSets = []ReasonSet{
	{
		Title: "States", Head: "State",
		Above: "Every accepted notification is `waiting` until it ends in exactly one other state.",
		Below: "An `ambiguous` target may have been sent although no answer says so: its slot is kept.",
		Rows: []Explained{
			{"waiting", "on a queue, claimed by a worker, or deferred", "nothing; `status ID` shows the cause and the time"},
			{"delivered", "a provider accepted it for at least one target", "nothing"},
			{"undeliverable", "every target's token is dead", "delete the tokens, which [reports](webhooks.md) name"},
			{"rejected", "refused for good", "fix the reason, then `dead requeue ID`"},
			{"exhausted", "its attempts, or the time for them, are used up", "as for `rejected`"},
			{"expired", "its end came before it could be sent", "nothing, or set a longer `ttl`; if there are many, limits or a provider hold back too much"},
			{"cancelled", "a producer or an operator ended it", "nothing"},
			{"superseded", "a newer one has the same collapse key", "nothing"},
			{"digested", "another one's push carries it", "nothing; `status ID` names that one: requeue it if it is a dead letter"},
			{"muted", "its app, user or category is muted", "nothing; `limits list` lists mutes, `limits unmute` ends one"},
			{"malformed", "a job that is no valid notification; `audit` does not count it", "find the program that wrote it; `dead purge ID`"},
		},
	},
	{
		Title: "Causes of waiting", Head: "Cause",
		Above: "`waiting --for CAUSE`, `cancel --all --for CAUSE` and `GET /v1/waiting?for=CAUSE` select by cause.",
		Rows: []Explained{
			{"worker", "it is due, and no worker has claimed it", "if it lasts, start workers"},
			{"in_hand", "a worker has claimed it", "nothing"},
			{"schedule", "its `not_before`", "nothing"},
			{"limit", "a limit of its user", "nothing; `timeline USER` shows it, `limits set` changes it"},
			{"quiet_hours", "the user's quiet hours; afterwards it may wait for a limit", "nothing; `critical` ones and exempt categories are sent"},
			{"quota", "a provider's quota, a category's throughput, or a device's limit", "nothing, or raise the quota, throughput or limit if the provider allows more; if its use cannot be read, the worker's log has the cause"},
			{"attempt", "another attempt after a failure, while the provider works", "see the target's reason"},
			{"pause", "an operator's pause", "`pauses` lists them, `resume` ends them"},
			{"provider", "its provider fails, is paused for its answers, or is busy, also for a worker without a share of its `concurrency`. A push service at a host that is not in the default `hosts` (`webpush:other`) gets no push for up to five minutes after several failures: this uses `retry_time`, but no attempt", "`status ID` and `pauses` show why and until when. Held notifications [leave by themselves](operators.md#after-an-outage), or by `resume`"},
			{"limiter", "the limits' Redis does not answer, or refuses a command", "see the reason. At `/readyz` no answer is `limits_redis` (`redis` without `limits.redis`), a refusal is `limits`"},
			{"timeline", "the user's timeline cannot be read or written, for example if a key has another type; other users' notifications go on", "see the reason, and the user's keys in the limits' Redis"},
			{"redis", "the queue's Redis refuses writes, so that a push could not be recorded", "see `pushpace_redis_trouble`; the push is sent once Redis accepts writes again"},
			{"machine", "the worker's machine is too busy to send on time", "if it lasts, start workers on other machines"},
			{"recovery", "a worker crashed, or Redis did not answer, while a worker had it", "nothing: if another worker runs, it is retried within seconds"},
		},
	},
	{
		Title: "Outcomes of a target", Head: "Outcome",
		Rows: []Explained{
			{"delivered", "the provider accepted it", "nothing"},
			{"dead_token", "the token or FID will never work again", "delete it"},
			{"retry", "a temporary failure; it is sent again", "nothing, unless it lasts"},
			{"rejected", "the same request can never succeed", "see its reason"},
			{"misconfigured", "the app's key, topic or project is refused; after several such answers [the route closes](operators.md#after-an-outage)", "see its reason; new credentials open the route"},
		},
	},
	{
		Title: "Reasons of pushpace", Head: "Reason",
		Rows: []Explained{
			{"ok", "delivered", "nothing"},
			{"dry_run", "delivered under the app's `dry_run`, to no device", "remove `dry_run` to send"},
			{"dial_failed", "no connection to the provider, or the proxy refused it; nothing was sent", "check DNS, firewall and `HTTPS_PROXY`; the log has the cause"},
			{"timed_out", "no answer within the provider's `timeout`; it may have been sent", "check the network"},
			{"connection_lost", "the connection broke before the answer; it may have been sent", "nothing, unless it lasts"},
			{"cancelled", "the worker stops, or cannot renew its share of the provider's `concurrency`", "nothing: it is sent again"},
			{"too_late", "its time ended before it got a connection; nothing was sent", "nothing, unless it lasts: the worker lacks processor time or connections"},
			{"origin_backoff", "a push service of `webpush:other` failed several times in a row, and got no push until `retry_time` ended", "remove its host from `hosts`, or delete its subscriptions"},
			{"tls_refused", "one side refuses the other's certificate", "check `root_ca_file`, the certificate, and whether a proxy opens TLS"},
			{"unreadable_answer", "the answer is not the provider's", "check for a proxy in between"},
			{"unknown_reason", "the provider does not document this reason", "see its documentation for news"},
			{"invalid", "the notification cannot be rendered for the platform", "see the error; `send --dry-run` shows the payloads"},
			{"unknown_app", "the configuration has no such app", "correct the name, or configure the app and restart"},
			{"unknown_category", "the configuration has no such category, and `limits.unknown_category` is `refuse`", "correct it, or add it to `limits.categories`"},
			{"line_full", "the user's notifications [hold all slots](guarantees.md#order)", "send the user less, or raise the limits"},
			{"dead_token_spike", "so many tokens of a push service are dead or refused that the app's environment or credentials may be wrong; none is reported dead, and [the route closes](operators.md#after-an-outage)", "check `environment`, `topic` and the credentials, then `resume`; for FCM's tokens see [moving to FIDs](producers.md#moving-an-app-to-fids)"},
			{"no_provider", "the app has no provider for the platform", "configure one, or leave out such targets"},
			{"unrecorded", "workers crashed with it too often, or could not record its outcome; it may have been sent", "see the workers' log"},
		},
	},
	{
		Title: "Reasons of APNs", Head: "Reason",
		Above: "The words are [Apple's](https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns).",
		Rows: []Explained{
			{"Unregistered ExpiredToken", "the app is gone from the device", "delete the token"},
			{"BadDeviceToken", "the token is malformed, or from the other environment", "delete it; if there are many, check `environment`"},
			{"DeviceTokenNotForTopic", "the token belongs to another app", "check `topic` if there are many"},
			{"BadTopic MissingTopic TopicDisallowed", "the credentials are not for this topic", "check `topic`, and the app of the key or certificate"},
			{"InvalidProviderToken MissingProviderToken", "the key is refused", "check `key_file`, `key_id`, `team_id` and this machine's clock"},
			{"ExpiredProviderToken", "the provider token is stale, and is renewed", "if it lasts, check this machine's clock"},
			{"BadEnvironmentKeyIdInToken", "the key is for the other environment", "check `environment`"},
			{"UnrelatedKeyIdInToken", "the connection has served another team's key; a new one is made", "nothing"},
			{"BadCertificate BadCertificateEnvironment", "the certificate is refused, or for the other environment", "check `certificate_file` and `environment`"},
			{"BadCollapseId BadExpirationDate BadMessageId BadPriority InvalidPushType DuplicateHeaders MissingDeviceToken PayloadEmpty", "APNs refuses the request", "report it with the output of `send --dry-run`: pushpace checks these itself"},
			{"PayloadTooLarge", "the payload exceeds 4 kB, or 5 kB for VoIP", "shorten it"},
			{"BadPath MethodNotAllowed", "the server is not APNs' API", "check `endpoint`"},
			{"Forbidden", "APNs does not allow this", "check the app in Apple's developer account"},
			{"IdleTimeout Shutdown", "APNs closed the connection; a new one is made", "nothing"},
			{"TooManyRequests", "too many notifications to one device in a row", "send the user less"},
			{"TooManyProviderTokenUpdates", "too many processes make tokens of one key", "use the key in fewer processes"},
			{"InternalServerError ServiceUnavailable", "APNs fails", "nothing; see Apple's system status"},
		},
	},
	{
		Title: "Reasons of FCM", Head: "Reason",
		Above: "Words in capitals are [FCM's](https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode).",
		Rows: []Explained{
			{"UNREGISTERED", "the app is gone from the device, the FID is not registered for messages, or `fid` holds a registration token", "delete it; if there are many, see [moving to FIDs](producers.md#moving-an-app-to-fids)"},
			{"invalid_token", "the token or FID is malformed", "delete it; find its source"},
			{"SENDER_ID_MISMATCH", "the token or FID belongs to another project", "check `credentials_file` and `project_id`"},
			{"INVALID_ARGUMENT", "FCM refuses the message", "see the error, which names the field"},
			{"QUOTA_EXCEEDED RESOURCE_EXHAUSTED", "the project or device has used its quota", "nothing: it waits as long as FCM asks; ask for more quota, or send users less"},
			{"UNAVAILABLE INTERNAL DEADLINE_EXCEEDED", "FCM fails", "nothing; see Firebase's status"},
			{"UNSPECIFIED_ERROR", "FCM names no cause", "see the error"},
			{"THIRD_PARTY_AUTH_ERROR", "FCM cannot send on to APNs or a web push service", "check the APNs key in the Firebase console"},
			{"UNAUTHENTICATED", "the access token is refused", "check `credentials_file`"},
			{"PERMISSION_DENIED", "the service account may not send for the project", "give it the role, or check `project_id`"},
			{"NOT_FOUND", "there is no such project, or another server answers", "check `project_id` and `endpoint`"},
			{"credentials_refused", "Google's token endpoint refuses the service account", "check the key and this machine's clock"},
			{"token_endpoint_unreachable", "no access token: Google's token endpoint is unreachable, too slow, or fails", "allow `oauth2.googleapis.com` as well as `fcm.googleapis.com`; the log has the cause"},
		},
	},
	{
		Title: "Reasons of Web Push", Head: "Reason",
		Above: "These words are pushpace's; the error has the service's host, status and word.",
		Rows: []Explained{
			{"gone not_found", "the subscription has ended", "delete it"},
			{"invalid_token", "the endpoint is not one of the service's", "delete it; find its source"},
			{"endpoint_doubted", "Google refuses the endpoint, at times even a good one", "nothing: it waits half an hour"},
			{"endpoint_refused", "the endpoint is no https URL at port 443 of a host in `hosts`, or the host's address is not public; nothing was sent", "find its source. If it is a push service's, add its host to `hosts`; if the host is in the default `hosts`, check this machine's DNS"},
			{"vapid_mismatch", "the subscription was made with another key", "delete it, and let the browser subscribe again; if there are many, compare the site's `applicationServerKey` with the app's public key"},
			{"unauthorized", "the service refuses the sender's token", "check `subject`, `private_key_file` and this machine's clock"},
			{"bad_request", "the service refuses the message", "see the error"},
			{"too_large", "the message is too large for this browser", "send less: 2 kB suit all"},
			{"too_many_requests", "the device gets too many messages", "nothing: it waits as long as the service asks; send users less"},
			{"throttled", "Windows gets too many messages of the app", "nothing: it waits as long as the service asks"},
			{"redirected", "the service names another address, which is not followed", "find the endpoint's source"},
			{"server_error", "the service fails", "nothing: it waits"},
		},
	},
	{
		Title: malformedReasons, Head: "Reason",
		Rows: []Explained{
			{"not_json", "truncated, or no JSON object", "find the program that wrote it"},
			{"unknown_version", "its version is missing, or unknown to this program", "upgrade the workers before the producers, then `dead requeue ID`"},
			{"too_large", "larger than a notification may be", "find the program that wrote it"},
			{"invalid", "its content is not valid, or has expired; from a plain asynq client, the ID may be another notification's", "see its error"},
			{"envelope", "the queue's own message around it cannot be read", "find the other program that writes to this Redis"},
			{"foreign", "on a shard's queue, a task not from a `push.Producer`; on a plain client's queue, a task of another type, or with a group or unique lock", "use `push.Producer`, the API, or [a plain task](producers.md#a-plain-asynq-client)"},
		},
	},
	{
		Title: "Troubles of Redis", Head: "Trouble",
		Rows: []Explained{
			{"away", "it is unreachable, or does not answer", "check that it runs, and the network"},
			{"refused", "it refuses the credentials", "check `username` and `password_file`"},
			{"crowded", "it accepts no more clients", "raise `maxclients`, or run fewer processes"},
			{"full", "its memory is full: nothing more is accepted", "raise `maxmemory`; `overview` shows why so many wait"},
			{"read_only", "it is a replica", "name the master, or the Sentinels"},
			{"no_replicas", "fewer replicas than `min-replicas-to-write` asks", "bring the replicas back"},
			{"not_saved", "it cannot save to disk (MISCONF)", "check its disk"},
			{"starting", "it loads its keys", "wait"},
			{"busy", "a script blocks it", "see its slow log"},
			{"broken", "the Cluster lacks slots, or no node is known", "see `cluster info`"},
		},
	},
}
