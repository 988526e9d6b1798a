package apns

import "github.com/pushpace/pushpace/providers"

// The reasons of APNs. Source: Apple, "Handling notification responses from APNs", table of
// response error strings.
const (
	// Status 400.
	BadCollapseID          providers.Reason = "BadCollapseId"
	BadDeviceToken         providers.Reason = "BadDeviceToken"
	BadExpirationDate      providers.Reason = "BadExpirationDate"
	BadMessageID           providers.Reason = "BadMessageId"
	BadPriority            providers.Reason = "BadPriority"
	BadTopic               providers.Reason = "BadTopic"
	DeviceTokenNotForTopic providers.Reason = "DeviceTokenNotForTopic"
	DuplicateHeaders       providers.Reason = "DuplicateHeaders"
	IdleTimeout            providers.Reason = "IdleTimeout"
	InvalidPushType        providers.Reason = "InvalidPushType"
	MissingDeviceToken     providers.Reason = "MissingDeviceToken"
	MissingTopic           providers.Reason = "MissingTopic"
	PayloadEmpty           providers.Reason = "PayloadEmpty"
	TopicDisallowed        providers.Reason = "TopicDisallowed"
	// Status 403.
	BadCertificate             providers.Reason = "BadCertificate"
	BadCertificateEnvironment  providers.Reason = "BadCertificateEnvironment"
	BadEnvironmentKeyIDInToken providers.Reason = "BadEnvironmentKeyIdInToken"
	ExpiredProviderToken       providers.Reason = "ExpiredProviderToken"
	Forbidden                  providers.Reason = "Forbidden"
	InvalidProviderToken       providers.Reason = "InvalidProviderToken"
	MissingProviderToken       providers.Reason = "MissingProviderToken"
	UnrelatedKeyIDInToken      providers.Reason = "UnrelatedKeyIdInToken"
	// Status 404, 405.
	BadPath          providers.Reason = "BadPath"
	MethodNotAllowed providers.Reason = "MethodNotAllowed"
	// Status 410.
	ExpiredToken providers.Reason = "ExpiredToken"
	Unregistered providers.Reason = "Unregistered"
	// Status 413.
	PayloadTooLarge providers.Reason = "PayloadTooLarge"
	// Status 429.
	TooManyProviderTokenUpdates providers.Reason = "TooManyProviderTokenUpdates"
	TooManyRequests             providers.Reason = "TooManyRequests"
	// Status 500, 503.
	InternalServerError providers.Reason = "InternalServerError"
	ServiceUnavailable  providers.Reason = "ServiceUnavailable"
	Shutdown            providers.Reason = "Shutdown"
)

// Reasons returns this package's own reasons, without the common reasons of package providers.
func Reasons() []providers.Reason {
	return []providers.Reason{
		BadCollapseID, BadDeviceToken, BadExpirationDate, BadMessageID, BadPriority, BadTopic,
		DeviceTokenNotForTopic, DuplicateHeaders, IdleTimeout, InvalidPushType, MissingDeviceToken,
		MissingTopic, PayloadEmpty, TopicDisallowed, BadCertificate, BadCertificateEnvironment,
		BadEnvironmentKeyIDInToken, ExpiredProviderToken, Forbidden, InvalidProviderToken,
		MissingProviderToken, UnrelatedKeyIDInToken, BadPath, MethodNotAllowed, ExpiredToken,
		Unregistered, PayloadTooLarge, TooManyProviderTokenUpdates, TooManyRequests,
		InternalServerError, ServiceUnavailable, Shutdown,
	}
}
