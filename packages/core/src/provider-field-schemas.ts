import type { ProviderField } from './provider-fields.ts';

type JsonSchema = Readonly<Record<string, unknown>>;

/** Returns the schema of an object that may have these fields alone. */
function closed(properties: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return { type: 'object', properties, additionalProperties: false };
}

function open(description: string, values?: JsonSchema): JsonSchema {
  return { type: 'object', description, ...(values && { additionalProperties: values }) };
}

/** Allows null, which removes what Carillon makes. */
function orNull({ description, ...schema }: JsonSchema): JsonSchema {
  return { description, anyOf: [schema, { type: 'null' }] };
}

function oneOf(values: readonly string[], description: string): JsonSchema {
  return { type: 'string', enum: values, description };
}

const APNS_PARTS = {
  headers: closed({
    'apns-push-type': oneOf(['alert', 'background'], 'Whether it shows something.'),
    'apns-priority': orNull(oneOf(['10', '5', '1'], 'Instead of that of `priority`.')),
    'apns-expiration': orNull({
      type: 'integer',
      description: 'Unix timestamp in seconds until which APNs keeps it.',
    }),
    'apns-collapse-id': orNull({
      type: 'string',
      pattern: '^[!-~]{1,64}$',
      description: 'Instead of `collapse_key`.',
    }),
  }),
  payload: open("`aps` with Apple's keys, and fields of your own."),
};
const STRING_OR_NULL = { type: ['string', 'null'] };

/**
 * JSON schemas of the fields that are merged over what a channel makes, for readers of the API's reference and its
 * generated clients. `findFieldFault` decides what is accepted.
 */
export const PROVIDER_FIELD_SCHEMAS = {
  apns: closed(APNS_PARTS),
  fcm: closed({
    android: orNull(open('`AndroidConfig` of FCM: `notification`, `priority`, `ttl`, …')),
    apns: closed({
      ...APNS_PARTS,
      fcm_options: orNull(open('`ApnsFcmOptions`: `analytics_label`, `image`.')),
    }),
    notification: orNull(open('Shown by the system: `title`, `body`, `image`.')),
    data: open('Further keys of the data.', STRING_OR_NULL),
    fcm_options: orNull(open('`FcmOptions`: `analytics_label`.')),
  }),
  web_push: closed({
    headers: closed({
      urgency: orNull(oneOf(['very-low', 'low', 'normal', 'high'], 'Instead of `priority`.')),
      topic: orNull({
        type: 'string',
        pattern: '^[0-9A-Za-z_-]{1,32}$',
        description: 'Instead of `collapse_key`.',
      }),
    }),
    payload: open('Fields beside those of `data`.'),
  }),
} satisfies Record<ProviderField, JsonSchema>;
