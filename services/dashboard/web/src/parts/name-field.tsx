import { TextInput } from '@mantine/core';

const MAX_NAME_CHARACTERS = 100;

interface NameFieldProps {
  name: string;
  maxCharacters?: number;
  onChange: (name: string) => void;
}

/** The name of an account, an app or a token, the first field of the form that creates it. */
export function NameField({ name, maxCharacters = MAX_NAME_CHARACTERS, onChange }: NameFieldProps) {
  return (
    <TextInput
      label="Name"
      required
      withAsterisk={false}
      maxLength={maxCharacters}
      data-autofocus
      value={name}
      onChange={({ currentTarget }) => onChange(currentTarget.value)}
    />
  );
}
