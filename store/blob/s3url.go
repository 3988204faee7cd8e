package blob

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// IsS3 reports whether a place is the URL of an S3-compatible store:
//
//	s3://bucket/prefix?endpoint=https://host:port&region=name&credentials=/path&profile=name&timeout=30s
//
// All blobs have names below prefix, which may be empty. endpoint is that of Amazon in the region by default, region is
// us-east-1. credentials is a file in the format of ~/.aws/credentials, of which the profile is used; without it the
// environment variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN hold. timeout is the time after
// which a connection without progress fails.
func IsS3(place string) bool { return strings.HasPrefix(place, "s3://") }

// defaultTimeout is the time after which a connection without progress fails.
const defaultTimeout = 30 * time.Second

// s3URL is a parsed place.
type s3URL struct {
	bucket, prefix       string // prefix is empty or ends with a slash
	host                 string
	secure               bool
	region               string
	credentials, profile string
	timeout              time.Duration
}

// Check reports an error if text is not a place: a malformed S3 URL.
func Check(text string) error {
	if !IsS3(text) {
		return nil
	}
	_, err := parseS3(text)
	return err
}

// parseS3 parses a place. The error names what is wrong.
func parseS3(text string) (s3URL, error) {
	p := s3URL{secure: true, region: "us-east-1", timeout: defaultTimeout}
	u, err := url.Parse(text)
	if err == nil {
		err = p.name(u)
	}
	var values url.Values
	if err == nil {
		values, err = url.ParseQuery(u.RawQuery)
	}
	for name, list := range values {
		if err == nil && (len(list) > 1 || list[0] == "") {
			err = fmt.Errorf("%s needs one value", name)
		}
		if err == nil {
			err = p.set(name, list[0])
		}
	}
	if err != nil {
		return s3URL{}, fmt.Errorf("place %q: %w: a bucket is s3://BUCKET/PREFIX?endpoint=https://HOST&region=NAME",
			text, err)
	}
	if p.host == "" {
		p.host = "s3." + p.region + ".amazonaws.com"
	}
	return p, nil
}

// name sets the bucket and the prefix.
func (p *s3URL) name(u *url.URL) error {
	if u.Host == "" || u.User != nil || u.Fragment != "" || u.Opaque != "" {
		return errors.New("no bucket, or an unknown part")
	}
	p.bucket = u.Host
	path := strings.Trim(u.Path, "/")
	if path == "" {
		return nil
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return errors.New("malformed prefix")
		}
	}
	p.prefix = path + "/"
	return nil
}

// set sets a parameter.
func (p *s3URL) set(name, value string) (err error) {
	switch name {
	case "endpoint":
		u, err := url.Parse(value)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			return errors.New("endpoint is a URL such as https://s3.example.net:9000")
		}
		p.host, p.secure = u.Host, u.Scheme == "https"
	case "region":
		p.region = value
	case "credentials":
		p.credentials = value
	case "profile":
		p.profile = value
	case "timeout":
		if p.timeout, err = time.ParseDuration(value); err != nil || p.timeout <= 0 {
			return errors.New("timeout is a time such as 30s")
		}
	default:
		return fmt.Errorf("unknown parameter %s", name)
	}
	return nil
}
