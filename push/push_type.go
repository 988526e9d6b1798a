package push

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

// topicSuffixes holds, for every push type, what its apns-topic has after the
// app's bundle ID.
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

// pushType returns the notification's push type, alert when it names none.
func (n *Notification) pushType() string {
	if n.PushType == "" {
		return PushAlert
	}
	return n.PushType
}
