import type { ApiErrorCode } from '@carillon/core/api-error';
import type { z } from 'zod';

/** Callers of an endpoint: the owner of an API key, a device with its auth, or either. */
export type CalledBy = 'backend' | 'device' | 'either';

/** One endpoint in the reference. */
export interface Operation {
  /** Operation id, which generated clients use as a name. */
  id: string;
  tag: string;
  method: 'get' | 'post' | 'patch' | 'delete';
  /** Path with `{name}` for parameters. */
  path: string;
  summary: string;
  description: string;
  calledBy: CalledBy;
  parameters?: readonly Parameter[];
  request?: { schema: z.ZodType; example: object };
  /** With `types` the response is text of these content types, and the schema describes one line. */
  response: { schema: z.ZodType; example: object; types?: readonly string[] };
  /** Errors besides those that every endpoint of its kind has. */
  errors: readonly ApiErrorCode[];
}

/** Path, query or header parameter. */
export interface Parameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required: boolean;
  schema: z.ZodType;
  description: string;
  example: string | number;
}

const COMMON_ERRORS: readonly ApiErrorCode[] = ['INVALID_PARAM'];
const BODY_ERRORS: readonly ApiErrorCode[] = [
  'REQUEST_TIMEOUT',
  'BODY_TOO_LARGE',
  'UNSUPPORTED_MEDIA_TYPE',
];
const BACKEND_ERRORS: readonly ApiErrorCode[] = [
  'INVALID_API_KEY',
  'AUTH_LIMIT_EXCEEDED',
  'ACCOUNT_SUSPENDED',
  'RATE_LIMIT_EXCEEDED',
  'INTERNAL_SERVER_ERROR',
];
const SERVER_ERRORS: readonly ApiErrorCode[] = ['SERVICE_UNAVAILABLE'];

/** Lists every error that an endpoint can return. */
export function listErrors({ calledBy, request, errors }: Operation): ApiErrorCode[] {
  return [
    ...new Set([
      ...errors,
      ...COMMON_ERRORS,
      ...(calledBy === 'device' ? [] : BACKEND_ERRORS),
      ...(request === undefined ? [] : BODY_ERRORS),
      ...SERVER_ERRORS,
    ]),
  ];
}
