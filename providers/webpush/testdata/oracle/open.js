// Reads pushes that the sender made, one in JSON a line, decrypts each with http_ece as its
// browser would, and verifies its token with jws.
'use strict';

const assert = require('node:assert');
const crypto = require('node:crypto');
const fs = require('node:fs');
const ece = require('http_ece');
const jws = require('jws');

const lines = fs.readFileSync(process.argv[2], 'utf8').trim().split('\n');
for (const line of lines) {
  const push = JSON.parse(line);
  const receiver = crypto.createECDH('prime256v1');
  receiver.setPrivateKey(push.private, 'base64url');
  const payload = ece.decrypt(Buffer.from(push.body, 'base64url'), {
    version: 'aes128gcm', privateKey: receiver, authSecret: push.auth,
  });
  assert.equal(payload.toString('base64url'), push.payload);

  const [, token, key] = /^vapid t=(\S+), k=(\S+)$/.exec(push.authorization);
  const point = Buffer.from(key, 'base64url');
  const jwk = { kty: 'EC', crv: 'P-256', x: point.subarray(1, 33).toString('base64url'), y: point.subarray(33).toString('base64url') };
  const pem = crypto.createPublicKey({ key: jwk, format: 'jwk' }).export({ type: 'spki', format: 'pem' });
  assert(jws.verify(token, 'ES256', pem));
  const claims = jws.decode(token).payload;
  assert.equal(claims.aud, push.origin);
  assert.equal(claims.sub, push.subject);
  assert(claims.exp > Date.now() / 1000 && claims.exp <= Date.now() / 1000 + 24 * 3600);
}
console.log(lines.length);
