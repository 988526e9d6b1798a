package api

import (
	_ "embed"
	"net/http"
)

// document describes the API, in OpenAPI 3.1. The Go types are the source of its schemas: the
// client reads into the types that the server writes, and a test holds each schema to its type.
// It is not generated: a type says no more than the fields' names, kinds and presence, so a
// generator would be more code, and bounds and descriptions would still be written by hand.
//
//go:embed openapi.json
var document []byte

// describe serves the document.
func (a *API) describe(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, "application/json", document)
}
