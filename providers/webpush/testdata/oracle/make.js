// Reads messages, one in JSON a line, and writes the requests that web-push would make of
// them, one a line.
'use strict';

const fs = require('node:fs');
const webpush = require('web-push');

for (const line of fs.readFileSync(process.argv[2], 'utf8').trim().split('\n')) {
  const m = JSON.parse(line);
  const request = webpush.generateRequestDetails(m.subscription, m.payload, {
    vapidDetails: { subject: m.subject, publicKey: m.public, privateKey: m.private },
    TTL: 60, urgency: 'high', contentEncoding: 'aes128gcm', headers: { 'X-WNS-Cache-Policy': 'cache' },
  });
  const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
  console.log(JSON.stringify({ endpoint: request.endpoint, method: request.method, headers, body: request.body.toString('base64url') }));
}
