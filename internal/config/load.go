package config

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/pushpace/pushpace/internal/base/textfile"
)

// maxFile is the largest configuration file, in bytes.
const maxFile = 1 << 20

// Load reads the configuration from a file and from environ, which has the form of os.Environ. The
// error is Faults, or the reason why the file cannot be read.
func Load(file string, environ []string) (*Config, error) {
	f, err := openRegular(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, errors.New(reason(err)))
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: the file is larger than %d bytes", file, maxFile)
	}
	return Parse(file, data, environ)
}

// Parse is Load for the text of a file. The file's name is used in errors and as the base of
// relative paths.
func Parse(file string, data []byte, environ []string) (*Config, error) {
	c := new(Config)
	c.SetDefaults()
	d := &decoder{file: file, origin: make(map[string]Fault), files: make(map[string]string)}
	text, err := textfile.Decode(data)
	if err != nil {
		d.faults = append(d.faults, Fault{File: file, Message: err.Error()})
		return nil, d.faults.orNil()
	}
	if !d.yaml(text, c) {
		return nil, d.faults.orNil()
	}
	d.environment(environ, c)
	if _, given := d.origin["limits.redis.prefix"]; c.Limits.Redis != nil && !given {
		c.Limits.Redis.Prefix = c.Redis.Prefix
	}
	d.secrets(c)
	d.present()
	d.validate(c)
	if err := d.faults.orNil(); err != nil {
		return nil, err
	}
	d.warn(c)
	return c, nil
}

// warn adds odd settings to the warnings of c.
func (d *decoder) warn(c *Config) {
	k := new(check)
	c.odd(k)
	for i, f := range k.faults {
		k.faults[i] = d.placed(f.Key, f.Message)
	}
	k.faults.sort()
	for _, f := range k.faults {
		c.warnings = append(c.warnings, f.Error())
	}
}

// secrets reads secrets from files: that of the key NAME from the file in NAME_file.
func (d *decoder) secrets(c *Config) {
	sections("", reflect.ValueOf(c), func(key string, section reflect.Value) {
		for _, f := range fieldsOf(section.Type()) {
			if f.Type == reflect.TypeFor[Secret]() {
				d.secret(key, tagOf(f), section.FieldByIndex(f.Index).Addr().Interface().(*Secret))
			}
		}
	})
}

// secret reads the secret name below key, if it is in a file.
func (d *decoder) secret(key, name string, secret *Secret) {
	at := join(key, name+"_file")
	path, given := d.files[at]
	if !given {
		return
	}
	delete(d.files, at)
	if *secret != "" {
		d.fault(at, "excludes "+name+": remove one or the other")
		return
	}
	text, err := ReadSecret(path)
	if err != nil {
		d.fault(at, err.Error())
		return
	}
	*secret = text
}

// present checks that the files that the configuration names can be read.
func (d *decoder) present() {
	for key, path := range d.files {
		f, err := openRegular(path)
		if err != nil {
			d.fault(key, fmt.Sprintf("%s: %v", path, err))
			continue
		}
		_ = f.Close()
	}
}

// validate adds the faults of c, except at keys where decoding has found a fault:
// a value that did not decode is not checked.
func (d *decoder) validate(c *Config) {
	k := &check{origin: d.origin}
	c.check(k)
	decoded := slices.Clone(d.faults)
	for _, f := range k.faults {
		if !slices.ContainsFunc(decoded, func(first Fault) bool { return Within(f.Key, first.Key) || Within(first.Key, f.Key) }) {
			d.fault(f.Key, f.Message)
		}
	}
}
