// The pool at one look.
import { request } from './client'
import type { components } from './schema'

export type ModelRoom = components['schemas']['ModelRoom']
export type Overview = components['schemas']['OverviewOut']

export const getOverview = () => request<Overview>('/api/v1/overview')
