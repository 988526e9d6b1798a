package console

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/pushpace/pushpace/internal/api/problems"
	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
)

// A fault is an error that is shown on a page.
type fault struct {
	status int
	title  string
	detail string
}

// Error implements error.
func (f *fault) Error() string { return f.title }

var (
	errNotFound    = &fault{http.StatusNotFound, "There is nothing here", "The address names no page."}
	errForbidden   = &fault{http.StatusForbidden, "Not allowed", "Your token's role does not allow this."}
	errNoConsole   = &fault{http.StatusForbidden, "No console for producers", "This is a producer's token: it can use the API, but not the console."}
	errForeign     = &fault{http.StatusForbidden, "Not sent from here", "The form was sent by a page of another origin: nothing was changed."}
	errNotFromHere = &fault{http.StatusForbidden, "Only from this machine", "Without tokens the console answers only this machine, at localhost or its address."}
	errBadQuery    = &fault{http.StatusBadRequest, "The address is not well formed", "A parameter has a value that this page does not accept."}
	errBadForm     = &fault{http.StatusBadRequest, "The form is not well formed", "Nothing was changed."}
	errBusy        = &fault{http.StatusServiceUnavailable, "Too much at once", "The console is answering too many requests: try again in a second."}
	errPanicked    = &fault{http.StatusInternalServerError, "This should not happen", "The log says where it did."}
	errSignIn      = &fault{http.StatusUnauthorized, "Sign in", "Your session has ended, or there was none. Nothing was changed."}
)

// checkNames rejects names with leading or trailing white space in an address or a form.
func checkNames(values url.Values) error {
	for _, name := range []string{"app", "user", "category", "collapse_key"} {
		for _, value := range values[name] {
			if err := checkName(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkName(of, value string) error {
	if problem := names.Ends(value); problem != "" {
		of = strings.ReplaceAll(of, "_", " ")
		return &fault{http.StatusBadRequest, "A name is not well formed", "The " + of + " " + problem + "."}
	}
	return nil
}

// unknownParameter returns the fault for a parameter that a page does not accept.
func unknownParameter(name string) *fault {
	return &fault{http.StatusBadRequest, "The address is not well formed", "This page accepts no parameter " + words.Printable(visible(name)) + "."}
}

// faultOf converts an error into the problem that a page shows.
func faultOf(v *visit, err error) *problems.Problem {
	var f *fault
	if errors.As(err, &f) {
		return &problems.Problem{Title: f.title, Status: f.status, Detail: f.detail}
	}
	p := *problems.Of(err)
	if p.Code == "unknown_name" && v.Method == http.MethodGet { // the name is part of the address
		p.Status = http.StatusNotFound
	}
	if p.Code == "invalid" && len(p.Errors) > 0 {
		p.Detail = "The " + strings.Trim(p.Errors[0].Pointer, "/") + " " + p.Errors[0].Detail + ". Nothing was changed."
	}
	return &p
}

// fail answers a failed visit, and logs it in one line without any text that the visitor chose.
func (c *Console) fail(w http.ResponseWriter, v *visit, err error) {
	f := faultOf(v, err)
	what := "a page failed"
	if f.Status < http.StatusInternalServerError {
		what = "a page was refused"
	}
	c.logRejection(v, what, f, v.who.Name)
	view := faultView{Detail: f.Detail, Away: f.Code == "redis"}
	if f.Status >= http.StatusInternalServerError {
		view.Tone = words.Wrong
	}
	if view.Away && v.as != nil {
		view.Last = lastKnown(v.as)
	}
	if v.Method == http.MethodPost && f.Status < http.StatusInternalServerError {
		for _, p := range navigation(v.URL.Path) {
			if p.Current != "" {
				view.Back = p.Path
			}
		}
	}
	if several := new(push.AmbiguousError); errors.As(err, &several) && v.PathValue("id") != "" {
		view.Owners = ownersAt(v.URL.EscapedPath(), several)
	}
	if v.Method == http.MethodGet && f.Status == http.StatusBadRequest && v.URL.RawQuery != "" {
		view.Plain = v.URL.EscapedPath()
	}
	switch {
	case v.Method != http.MethodPost || f.Status < http.StatusInternalServerError || v.URL.Path == signInPath:
	case errors.Is(err, errBusy) || v.form == nil && !errors.Is(err, errPanicked): // the action was not begun
		view.Done = "Nothing was changed."
	default:
		view.Done = "It is unknown whether the action was done: check before you repeat it."
	}
	if errors.Is(err, errSignIn) || errors.Is(err, errNoConsole) {
		view.SignIn = signInAddress(v.Request)
	}
	if errors.Is(err, errSignIn) && navigates(v.Request) {
		http.Redirect(w, v.Request, view.SignIn, http.StatusSeeOther)
		return
	}
	if err := c.render(w, v, page{name: "fault", title: f.Title, status: f.Status, live: passes(v, f), data: view}); err != nil {
		c.log.Error("the console could not write an error page", "error", err)
	}
}

// lastKnown summarizes the last readable overview: waiting notifications and running workers.
func lastKnown(as *operate.Operator) words.Sentence {
	o, err := as.LastOverview()
	if err != nil || o == nil || o.WaitingNotRead() != "" {
		return nil
	}
	s := words.Say("Last known, ", o.At, ": "+words.Counted(o.Waiting, "notification waited", "notifications waited"))
	if o.NotRead(operate.PartWorkers) == "" {
		s = words.Say(s, ", "+words.Counted(len(o.Workers), "worker ran", "workers ran"))
	}
	return words.Say(s, ".")
}

// logRejection logs a rejected request.
func (c *Console) logRejection(v *visit, what string, p *problems.Problem, name string) {
	more := []slog.Attr{slog.String("remote", v.RemoteAddr)}
	if p.Cause != nil {
		more = append(more, slog.String("cause", p.Why()))
	}
	c.repeats.Write(v.Context(), c.log, p.Level(), what, []slog.Attr{slog.String("route", v.Pattern), slog.Int("status", p.Status), slog.String("token", name)}, more...)
}

// passes reports whether a failed page may recover by itself; the script then polls it.
func passes(v *visit, f *problems.Problem) bool {
	return v.Method == http.MethodGet && f.Status >= http.StatusInternalServerError
}

// An owner is a user with the requested ID, and the address of the page about the user's notification
// or dead letter.
type owner struct{ App, User, To string }

// ownersAt lists the users that have the ID in a page's path. Unreadable entries have no owner
// and no page.
func ownersAt(path string, several *push.AmbiguousError) (all []owner) {
	for _, ref := range several.Choices {
		if ref.App != "" {
			all = append(all, owner{ref.App, ref.User, address(path, field{"app", ref.App}, field{"user", ref.User})})
		}
	}
	return all
}

// A faultView is the data of fault.html.
type faultView struct {
	Detail string
	Tone   words.Tone
	Away   bool // Redis does not answer
	// Last is the last known state; empty if none is known.
	Last   words.Sentence
	Owners []owner
	Done   string // whether the form's action was done; "" for a page, and if Detail says it
	Back   string // the page of the rejected form; "" for none
	Plain  string // the page without its query; "" for none
	SignIn string // the address of the required sign-in; "" for none
}

// navigates reports whether the browser loads a page, as opposed to a script. A request without
// Sec-Fetch-Mode counts as navigation.
func navigates(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return r.Method != http.MethodPost && (mode == "" || mode == "navigate")
}
