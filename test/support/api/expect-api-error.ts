import { expect } from '@jest/globals';
import { API_ERRORS, type ApiErrorCode } from '../../../packages/core/src/api-error.ts';
import type { ApiResponse } from '../stack/call-api.ts';

/** Expects a response to be this error in the form that every error has (specification, section 7). */
export function expectApiError(response: ApiResponse<object>, code: ApiErrorCode): void {
  const { status, json, text, headers } = response;
  expect([status, json]).toMatchObject([API_ERRORS[code][0], { code, error: expect.any(String) }]);
  expect(Object.keys(json).sort()).toEqual(['code', 'error']);
  expect(headers.get('content-type')).toMatch(/^application\/json/);
  // Neither a stack nor a path of ours.
  expect(text).not.toMatch(/\bat \S+ \(|\.ts:|node_modules/);
}
