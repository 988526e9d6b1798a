package wire

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"regexp"

	"golang.org/x/oauth2/google"
	"golang.org/x/oauth2/jwt"

	"github.com/pushpace/pushpace/internal/base/textfile"
)

// scope allows an access token to send messages, and nothing else.
const scope = "https://www.googleapis.com/auth/firebase.messaging"

// ReadCredentials reads a service account's key file. Its errors hold nothing
// of the key.
func ReadCredentials(file string) (account *jwt.Config, project string, err error) {
	data, err := textfile.Read(file)
	if err != nil {
		return nil, "", fmt.Errorf("credentials_file: %w", err)
	}
	if problem := notAccount(data); problem != "" {
		return nil, "", fmt.Errorf("credentials_file: %s %s; %s", file, problem, wantAccount)
	}
	if account, err = google.JWTConfigFromJSON(data, scope); err != nil {
		return nil, "", fmt.Errorf("credentials_file: %s cannot be read; %s", file, wantAccount)
	}
	if err := checkKey(account.PrivateKey); err != nil {
		return nil, "", fmt.Errorf("credentials_file: %s: private_key %w", file, err)
	}
	if account.Email == "" {
		return nil, "", fmt.Errorf("credentials_file: %s: client_email is missing", file)
	}
	if err := CheckURL(account.TokenURL); err != nil {
		return nil, "", fmt.Errorf("credentials_file: %s: token_uri %w", file, err)
	}
	var named struct {
		ProjectID string `json:"project_id"`
	}
	_ = json.Unmarshal(data, &named) // data was read as JSON above
	return account, named.ProjectID, nil
}

// wantAccount describes the required file.
const wantAccount = "want the JSON key file of a service account: Firebase console, Project settings, Service accounts, Generate new private key"

// others are the types of Google's credential files that are not supported. Some files name URLs to
// request, or programs to run.
var others = map[string]string{
	"external_account":                 "is for workload identity federation",
	"external_account_authorized_user": "is for workforce identity federation",
	"authorized_user":                  "is a person's login of gcloud (application default credentials)",
	"impersonated_service_account":     "is for the impersonation of a service account",
	"gdch_service_account":             "is of Google Distributed Cloud",
}

// notAccount returns why a file is not a service account's key; "" if it may be a key. It repeats
// nothing of the file.
func notAccount(data []byte) string {
	var form struct {
		Type    string          `json:"type"`
		Web     json.RawMessage `json:"web"`
		Desktop json.RawMessage `json:"installed"`
		Project json.RawMessage `json:"project_info"`
	}
	switch err := json.Unmarshal(data, &form); {
	case err != nil:
		return "is not a JSON object"
	case form.Type == "service_account":
		return ""
	case others[form.Type] != "":
		return others[form.Type] + ", which is not supported"
	case form.Web != nil || form.Desktop != nil:
		return "is an OAuth client"
	case form.Project != nil:
		return "is the google-services.json of an app"
	}
	return "is not a service account's key"
}

func checkKey(text []byte) error {
	block, _ := pem.Decode(text)
	if block == nil {
		return errors.New("is not in PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	}
	if _, ok := key.(*rsa.PrivateKey); err != nil || !ok {
		return errors.New("is not an RSA key")
	}
	return nil
}

// A project ID is part of the URL. Domain-scoped IDs hold a dot and a colon.
var projectID = regexp.MustCompile(`^[a-z0-9.:-]{1,100}$`)

// IsProject reports whether s may be a Firebase project's ID.
func IsProject(s string) bool { return projectID.MatchString(s) }

// CheckURL accepts https only: the requests hold credentials. Its errors do not repeat the URL,
// which could hold credentials itself.
func CheckURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("is not a URL")
	case u.Scheme != "https" || u.Host == "":
		return errors.New("is not an https URL such as https://127.0.0.1:8443")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("must have no user, query or fragment")
	}
	return nil
}
