package push

import "strings"

// APNs' push types, as the apns-push-type header has them.
// Source: Apple, "Sending notification requests to APNs".
const (
	PushAlert        = "alert"
	PushBackground   = "background"
	PushLocation     = "location"
	PushVoIP         = "voip"
	PushComplication = "complication"
	PushFileProvider = "fileprovider"
	PushMDM          = "mdm"
	PushLiveActivity = "liveactivity"
	PushPushToTalk   = "pushtotalk"
	PushWidgets      = "widgets"
	PushControls     = "controls"
)

// topicSuffixes holds, for every push type, the suffix of the app's bundle ID in its apns-topic.
var topicSuffixes = map[string]string{
	PushAlert:        "",
	PushBackground:   "",
	PushLocation:     ".location-query",
	PushVoIP:         ".voip",
	PushComplication: ".complication",
	PushFileProvider: ".pushkit.fileprovider",
	PushMDM:          "",
	PushLiveActivity: ".push-type.liveactivity",
	PushPushToTalk:   ".voip-ptt",
	PushWidgets:      ".push-type.widgets",
	PushControls:     ".push-type.controls",
}

// BareTopic splits an APNs topic into the bare topic and the suffix of a push type, whatever its
// letter case; "" for no suffix.
func BareTopic(topic string) (bare, suffix string) {
	for _, s := range topicSuffixes {
		if at := len(topic) - len(s); len(s) > len(suffix) && at >= 0 && strings.EqualFold(topic[at:], s) {
			bare, suffix = topic[:at], s
		}
	}
	if suffix == "" {
		return topic, ""
	}
	return bare, suffix
}

// pushType returns the notification's push type, alert if it has no push type.
func (n *Notification) pushType() string {
	if n.PushType == "" {
		return PushAlert
	}
	return n.PushType
}
