import type { ApiErrorCode } from '@carillon/core/api-error';
import type { z } from 'zod';

/** Who may call an endpoint: the owner of an API key, a device with its auth, or either. */
export type CalledBy = 'backend' | 'device' | 'either';

/** One endpoint as the reference tells it. */
export interface Operation {
  /** Name of the operation for generated clients. */
  id: string;
  tag: string;
  method: 'get' | 'post' | 'delete';
  /** With `{name}` for parameters. */
  path: string;
  summary: string;
  description: string;
  calledBy: CalledBy;
  parameters?: readonly Parameter[];
  request?: { schema: z.ZodType; example: object };
  response: { schema: z.ZodType; example: object };
  /** Beside those that every endpoint of its kind has. */
  errors: readonly ApiErrorCode[];
}

/** A parameter of the path, the query or the headers. */
export interface Parameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required: boolean;
  schema: z.ZodType;
  description: string;
  example: string | number;
}

const ALL: readonly ApiErrorCode[] = ['INVALID_PARAM'];
const WITH_BODY: readonly ApiErrorCode[] = ['BODY_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE'];
const BACKEND: readonly ApiErrorCode[] = [
  'INVALID_API_KEY',
  'AUTH_LIMIT_EXCEEDED',
  'ACCOUNT_SUSPENDED',
  'RATE_LIMIT_EXCEEDED',
  'INTERNAL_SERVER_ERROR',
];
const OURS: readonly ApiErrorCode[] = ['SERVICE_UNAVAILABLE'];

/** Every error that an endpoint can answer. */
export function errorsOf({ calledBy, request, errors }: Operation): ApiErrorCode[] {
  return [
    ...new Set([
      ...errors,
      ...ALL,
      ...(calledBy === 'device' ? [] : BACKEND),
      ...(request === undefined ? [] : WITH_BODY),
      ...OURS,
    ]),
  ];
}
