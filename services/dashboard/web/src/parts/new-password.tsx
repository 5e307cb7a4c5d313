import { PasswordInput } from '@mantine/core';

const MIN_PASSWORD = 12;

interface NewPasswordProps {
  password: string;
  repeated: string;
  onPassword: (password: string) => void;
  onRepeated: (repeated: string) => void;
}

/** Returns why a new password can't be used; undefined if it can. */
export function findPasswordProblem(password: string, repeated: string): string | undefined {
  if (password.length < MIN_PASSWORD) return `A password has at least ${MIN_PASSWORD} characters.`;
  return password === repeated ? undefined : 'The two passwords differ.';
}

/** Shows the two inputs of a new password. */
export function NewPassword({ password, repeated, onPassword, onRepeated }: NewPasswordProps) {
  const differs = repeated !== '' && repeated !== password;
  return (
    <>
      <PasswordInput
        label="New password"
        description={`At least ${MIN_PASSWORD} characters`}
        autoComplete="new-password"
        required
        withAsterisk={false}
        minLength={MIN_PASSWORD}
        value={password}
        onChange={({ currentTarget }) => onPassword(currentTarget.value)}
      />
      <PasswordInput
        label="New password again"
        autoComplete="new-password"
        required
        withAsterisk={false}
        value={repeated}
        error={differs ? 'The two passwords differ.' : null}
        onChange={({ currentTarget }) => onRepeated(currentTarget.value)}
      />
    </>
  );
}
