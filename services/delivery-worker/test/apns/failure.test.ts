import { expect, test } from '@jest/globals';
import { readFailure } from '../../src/channels/apns/failure.ts';

/** As node-apn wraps what Node says. */
function wrapped(code: string, message: string): unknown {
  return { error: Object.assign(new Error('apn write failed'), { jse_cause: { code, message } }) };
}

test.each([
  ['ERR_HTTP2_STREAM_ERROR', 'Stream closed with error code NGHTTP2_REFUSED_STREAM', 'unprocessed'],
  ['ERR_HTTP2_GOAWAY_SESSION', 'New streams cannot be created after a GOAWAY', 'unprocessed'],
  ['ERR_HTTP2_INVALID_SESSION', 'The session has been destroyed', 'unprocessed'],
  ['ERR_HTTP2_STREAM_ERROR', 'Stream closed with error code NGHTTP2_INTERNAL_ERROR', 'lost'],
  ['ERR_HTTP2_STREAM_CANCEL', 'canceled (caused by: connect ECONNREFUSED)', 'lost'],
  ['ERR_SSL_SSLV3_ALERT_CERTIFICATE_REVOKED', 'ssl3_read_bytes', 'unusable'],
  ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'ssl3_read_bytes', 'unusable'],
  ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'ssl3_read_bytes', 'unusable'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'ssl3_get_record', 'lost'],
])('%s: %s is %s', (code, message, kind) => {
  const { detail, ...failure } = readFailure(wrapped(code, message));
  expect(failure).toEqual({ kind });
  expect(detail).toContain(message);
});

test('anything can be read', () => {
  for (const failure of [undefined, 'text', {}, new Error('why')]) {
    expect(readFailure(failure).kind).toBe('lost');
  }
});
