/** Keywords of a JSON schema in the OpenAPI document that tests read. */
export interface JsonSchema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxLength?: number;
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
}

/** A parameter of an endpoint. */
export interface EndpointParameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required: boolean;
  schema: JsonSchema;
  example: string | number;
}

/** An endpoint as the OpenAPI document of a running API describes it. */
export interface Endpoint {
  id: string;
  /** In capitals. */
  method: string;
  /** Path with `{name}` for parameters. */
  path: string;
  /** No request is accepted without an API key. */
  needsApiKey: boolean;
  parameters: EndpointParameter[];
  /** The request's body, if it has one. */
  body: { schema: JsonSchema; example: Record<string, unknown> } | undefined;
  /** Documented error codes. */
  codes: ReadonlySet<string>;
  /** Content types of the successful response. */
  types: string[];
}

/** Endpoints with the schemas that they refer to. */
export interface EndpointList {
  endpoints: Endpoint[];
  /** Follows a reference; other schemas are returned as they are. */
  resolve(schema: JsonSchema): JsonSchema;
}

interface OpenApiDocument {
  paths: Record<string, Record<string, OpenApiOperation>>;
  components: { schemas: Record<string, JsonSchema> };
}
interface OpenApiOperation {
  operationId: string;
  security: Record<string, unknown>[];
  parameters?: Partial<EndpointParameter>[];
  requestBody?: { content: Record<string, { schema: JsonSchema; example: object }> };
  responses: Record<string, { content?: Record<string, { examples?: Record<string, unknown> }> }>;
}

const JSON_TYPE = 'application/json';
const REFERENCE = '#/components/schemas/';

/** Reads the endpoints of an API from its OpenAPI document, so that no test can forget one. */
export async function readEndpoints(api: string): Promise<EndpointList> {
  const response = await fetch(new URL('/openapi.json', api));
  const { paths, components } = (await response.json()) as OpenApiDocument;
  const endpoints = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => toEndpoint(method, path, operation)),
  );
  return {
    endpoints,
    resolve(schema) {
      const { $ref } = schema;
      if ($ref === undefined) return schema;
      const found = components.schemas[$ref.slice(REFERENCE.length)];
      if (found === undefined) throw new Error(`the document has no ${$ref}`);
      return found;
    },
  };
}

function toEndpoint(method: string, path: string, operation: OpenApiOperation): Endpoint {
  const { operationId: id, security, parameters = [], requestBody, responses } = operation;
  const content = requestBody?.content[JSON_TYPE];
  const codes = Object.values(responses).flatMap((response) =>
    Object.keys(response.content?.[JSON_TYPE]?.examples ?? {}),
  );
  return {
    ...{ id, path, method: method.toUpperCase() },
    needsApiKey: security.length > 0 && security.every((way) => Object.keys(way).length > 0),
    parameters: parameters.map(toParameter),
    body: content && {
      schema: content.schema,
      example: content.example as Record<string, unknown>,
    },
    codes: new Set(codes),
    types: Object.keys(responses[200]?.content ?? {}),
  };
}

function toParameter(parameter: Partial<EndpointParameter>): EndpointParameter {
  const { name, in: location, required = false, schema = {}, example = '' } = parameter;
  if (name === undefined || location === undefined) throw new Error('a parameter without a name');
  return { name, in: location, required, schema, example };
}

/** Lists the fields of a body's schema with those of its alternatives; a name of several alternatives is listed once. */
export function listFields(
  { resolve }: Pick<EndpointList, 'resolve'>,
  schema: JsonSchema,
): Map<string, JsonSchema> {
  const { properties = {}, anyOf = [], oneOf = [] } = resolve(schema);
  const fields = new Map(Object.entries(properties));
  for (const alternative of [...anyOf, ...oneOf])
    for (const [name, field] of listFields({ resolve }, alternative)) fields.set(name, field);
  return fields;
}
