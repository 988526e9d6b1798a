package pushpace_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// parts are the packages whose constructors the API and the console must not call.
var parts = []string{"push", "throttle", "throttle/limits", "throttle/meter", "worker", "worker/control", "worker/pause", "worker/queue", "internal/operate", "internal/operate/auditlog", "internal/operate/inspect", "internal/redisconn", "internal/base/pipeline", "internal/store"}

// Commands only read flags, call the API and print. They use the engine only through internal/app,
// which assembles the parts.
func TestCommandsUseOnlyAPI(t *testing.T) {
	t.Parallel()
	acts := []string{"worker", "worker/queue", "worker/route", "throttle/meter", "internal/api", "internal/console", "internal/base/pipeline"}
	for path, file := range parsed(t, "internal/cli") {
		for _, i := range file.Imports {
			imported, _ := strconv.Unquote(i.Path.Value)
			if strings.HasPrefix(imported, "github.com/redis/") || slices.Contains(acts, strings.TrimPrefix(imported, module)) {
				t.Errorf("%s: a command imports %s", path, imported)
			}
		}
	}
}

// The API and the console make all changes through internal/operate, except for the console's own
// sessions.
func TestConsoleAndAPIChangeDataOnlyThroughService(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"internal/api", "internal/console"} {
		for path, file := range parsed(t, folder) {
			if path == "internal/console/session.go" {
				continue
			}
			for _, what := range makes(file) {
				t.Errorf("%s has %s", path, what)
			}
		}
	}
}

// parsed returns a folder's parsed files without tests, by path.
func parsed(t *testing.T, folder string) map[string]*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	must(t, err)
	files := map[string]*ast.File{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		files[path], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		must(t, err)
	}
	if len(files) == 0 {
		t.Fatalf("%s has no file", folder)
	}
	return files
}

// makes returns the constructors of parts that a file calls, and the Redis client packages that it
// imports.
func makes(file *ast.File) (all []string) {
	names := map[string]bool{}
	for _, i := range file.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		if strings.HasPrefix(path, "github.com/redis/go-redis/") {
			all = append(all, path)
		}
		if ours, is := strings.CutPrefix(path, module); is && slices.Contains(parts, ours) {
			names[filepath.Base(ours)] = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		callee, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of, ok := callee.X.(*ast.Ident)
		if name := callee.Sel.Name; ok && names[of.Name] && (strings.HasPrefix(name, "New") || name == "Open" || name == "Unchecked" || name == "Share") {
			all = append(all, of.Name+"."+name)
		}
		return true
	})
	return all
}
