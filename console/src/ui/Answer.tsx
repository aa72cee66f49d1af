// What stands in the place of an answer until it is there: nothing, or the server's refusal.
import type { ReactNode } from 'react'
import { Refusal } from './Refusal'

interface AnswerProps {
  readonly query: { readonly isError: boolean; readonly error: unknown; readonly data: unknown }
  readonly children: ReactNode
}

/** Show the children; or the refusal, where there is no earlier answer to show. */
export function Answer({ query, children }: AnswerProps) {
  if (query.isError && query.data === undefined) return <Refusal error={query.error} />
  return <>{children}</>
}
