import { expect, test } from '@jest/globals';
import { apnsOutcome, classifyFailure } from '../../src/channels/apns/outcome.ts';

test.each([302, 502])('%d without a reason is deferred, and its detail says so', (status) => {
  const detail = `${status} without a reason`;
  const attempt = apnsOutcome({ kind: 'response', status });
  expect(attempt).toEqual({ kind: 'retry', scope: 'upstream', detail });
});

/** Wraps an error of Node as node-apn does. */
function wrapError(code: string, message: string): unknown {
  return { error: Object.assign(new Error('apn write failed'), { jse_cause: { code, message } }) };
}

test.each([
  ['ERR_HTTP2_STREAM_ERROR', 'Stream closed with error code NGHTTP2_REFUSED_STREAM', 'unprocessed'],
  ['ERR_HTTP2_GOAWAY_SESSION', 'New streams cannot be created after a GOAWAY', 'unprocessed'],
  ['ERR_HTTP2_INVALID_SESSION', 'The session has been destroyed', 'unprocessed'],
  ['ERR_HTTP2_STREAM_ERROR', 'Stream closed with error code NGHTTP2_INTERNAL_ERROR', 'no-response'],
  ['ERR_HTTP2_STREAM_CANCEL', 'canceled (caused by: connect ECONNREFUSED)', 'no-response'],
  ['ERR_SSL_SSLV3_ALERT_CERTIFICATE_REVOKED', 'ssl3_read_bytes', 'bad-credential'],
  ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'ssl3_read_bytes', 'bad-credential'],
  ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'ssl3_read_bytes', 'bad-credential'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'ssl3_get_record', 'no-response'],
])('%s: %s is %s', (code, message, kind) => {
  const { detail, ...failure } = classifyFailure(wrapError(code, message));
  expect(failure).toEqual({ kind });
  expect(detail).toContain(message);
});

test.each([undefined, 'text', {}, new Error('why')])('any value is classified: %p', (failure) => {
  expect(classifyFailure(failure).kind).toBe('no-response');
});
