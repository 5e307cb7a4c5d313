/** Keywords of a JSON schema in an OpenAPI document that are read here. */
interface JsonSchema {
  $ref?: string;
  type?: string | string[];
  description?: string;
  enum?: unknown[];
  const?: unknown;
  properties?: Record<string, JsonSchema>;
  additionalProperties?: unknown;
  required?: string[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
}

interface Document {
  paths: Record<string, Record<string, { requestBody?: { content: Record<string, Content> } }>>;
  components: { schemas: Record<string, JsonSchema> };
}
interface Content {
  schema: JsonSchema;
}

const NULL_SCHEMA: JsonSchema = { type: 'null' };
const REFERENCE_PREFIX = '#/components/schemas/';

/**
 * Marks optional request fields of a document as nullable: null counts as absent (`core/validate`). Modifies the document.
 * An object that has no other fields than its own is merged over what a provider gets, and names those that may be null.
 */
export function allowNulls<T extends object>(document: T): T {
  const { paths, components } = document as T & Document;
  const seen = new Set<JsonSchema>();
  const visit = (shape: JsonSchema | undefined): void => {
    if (shape === undefined || seen.has(shape) || shape.additionalProperties === false) return;
    seen.add(shape);
    if (shape.$ref !== undefined)
      visit(components.schemas[shape.$ref.slice(REFERENCE_PREFIX.length)]);
    for (const alternative of [...(shape.anyOf ?? []), ...(shape.oneOf ?? [])]) visit(alternative);
    for (const [name, field] of Object.entries(shape.properties ?? {})) {
      visit(field);
      const isRequired = shape.required?.includes(name) === true;
      if (!isRequired && shape.properties) shape.properties[name] = makeNullable(field);
    }
  };
  for (const operation of Object.values(paths).flatMap((methods) => Object.values(methods))) {
    for (const { schema } of Object.values(operation.requestBody?.content ?? {})) visit(schema);
  }
  return document;
}

function makeNullable(shape: JsonSchema): JsonSchema {
  const { type, anyOf, description, ...rest } = shape;
  const descriptionField = description === undefined ? {} : { description };
  if (anyOf !== undefined) {
    return anyOf.some((alternative) => alternative.type === 'null')
      ? shape
      : { ...shape, anyOf: [...anyOf, NULL_SCHEMA] };
  }
  if (shape.$ref === undefined && shape.enum === undefined && shape.const === undefined) {
    return typeof type === 'string' ? { ...shape, type: [type, 'null'] } : shape;
  }
  return {
    ...descriptionField,
    anyOf: [{ ...rest, ...(type !== undefined && { type }) }, NULL_SCHEMA],
  };
}
