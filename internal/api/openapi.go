package api

import (
	_ "embed"
	"net/http"
)

// document describes the API, in OpenAPI 3.1. The Go types are the source of its schemas: the
// client reads into the types that the server writes, and a test holds each schema to its type.
// It is not generated: that would be more code than the fields' names, kinds and presence, which
// are all that a type says; their bounds and descriptions would be written by hand as well.
//
//go:embed openapi.json
var document []byte

// describe answers the document.
func (a *API) describe(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, "application/json", document)
}
