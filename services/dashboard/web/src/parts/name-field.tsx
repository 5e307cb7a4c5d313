import { TextInput } from '@mantine/core';

const MAX_NAME_CHARACTERS = 100;

/** The name of an account or of an app, the first field of the form that creates it. */
export function NameField({ name, onChange }: { name: string; onChange: (name: string) => void }) {
  return (
    <TextInput
      label="Name"
      required
      withAsterisk={false}
      maxLength={MAX_NAME_CHARACTERS}
      data-autofocus
      value={name}
      onChange={({ currentTarget }) => onChange(currentTarget.value)}
    />
  );
}
