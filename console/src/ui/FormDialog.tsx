// A dialog that does one thing: a form, or the plan of what would end. A refusal stands at its field.
import { Button, Modal } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { Problem } from '../api/problem'
import { translateText, useServerWords } from '../app/serverWords'
import { Refusal } from './Refusal'

/** What the server says of a field; undefined where it says nothing. */
export type FieldProblem = (field: string) => string | undefined

interface FormDialogProps<Answer> {
  readonly title: string
  /** Words of the button: the verb, and what it is about. */
  readonly confirm: string
  /** True where something ends or is lost. */
  readonly danger?: boolean
  /** False while a field has no value that could be sent. */
  readonly isReady?: boolean
  /** Fields by the codes of refusals that are about one field. */
  readonly fieldOfCode?: Readonly<Record<string, string>>
  readonly wide?: boolean
  /** A part between the refusal and the buttons. */
  readonly below?: (error: unknown) => ReactNode
  act(): Promise<Answer>
  onDone(answer: Answer): void
  onClose(): void
  children(problem: FieldProblem): ReactNode
}

export function FormDialog<Answer>(props: FormDialogProps<Answer>) {
  const { t } = useTranslation('shell')
  useServerWords() // `findProblem` has their texts
  const change = useMutation({ mutationFn: props.act, onSuccess: props.onDone })
  const problem: FieldProblem = (field) => findProblem(change.error, field, props.fieldOfCode)
  return (
    <Modal
      opened
      onClose={props.onClose}
      title={props.title}
      size={props.wide ? 'lg' : 'md'}
      closeButtonProps={{ 'aria-label': t('close') }}
      returnFocus
    >
      <form
        className="form"
        onSubmit={(event) => {
          event.preventDefault()
          change.mutate()
        }}
      >
        {props.children(problem)}
        {change.isError && <Refusal error={change.error} />}
        {props.below?.(change.error)}
        <div className="row wrap dialog-acts">
          <Button
            type="submit"
            loading={change.isPending}
            disabled={props.isReady === false}
            {...(props.danger ? { className: 'danger', variant: 'outline', 'data-autofocus': true } : {})}
          >
            {props.confirm}
          </Button>
          <Button variant="default" onClick={props.onClose}>
            {t('cancel')}
          </Button>
        </div>
      </form>
    </Modal>
  )
}

/** What a refusal says of a field: by the field's name, or by the refusal's code. */
export function findProblem(
  error: unknown,
  field: string,
  fieldOfCode: Readonly<Record<string, string>> = {},
): string | undefined {
  if (!(error instanceof Problem)) return undefined
  const said = error.fields.get(field) ?? (fieldOfCode[error.code] === field ? error.message : undefined)
  return said === undefined ? undefined : writeFieldProblem(said, error)
}

/** What stands at a field: the problem in the language of the page, and the refusal's code. */
export function writeFieldProblem(text: string, refusal: Problem): string {
  return `${translateText(text)} (${refusal.code})`
}
